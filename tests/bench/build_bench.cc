// The builders end to end against a plain copy: the same input read and as many bytes written to as many files, by read
// and write calls on as many threads, made durable the same way.
//   PLANESMITH_BENCH_CHECKPOINT  a checkpoint, e.g. of make-checkpoint; its first layer with routed experts and the next
//                                are converted (the input is in the page cache after the first go)
//   PLANESMITH_BENCH_DIR         a folder on the file system to write to
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/parallel.h"
#include "bench/bench.h"
#include "pipeline/build.h"
#include "pipeline/from_planescache.h"

namespace planesmith::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Setup {
  Context context;
  Checkpoint checkpoint;
  Model model;
  std::string out;

  void clean() const {
    std::filesystem::remove_all(out);
    std::filesystem::create_directories(out);
    ::sync();
  }
};

// Reads what the plan reads and writes as many bytes as it writes, file for file.
void plain_copy(const Setup& setup, const Plan& plan) {
  std::vector<std::uint64_t> section_bytes;  // of each file a layer is written to
  if (plan.request.cache)
    for (const format::Part& part : format::cache_parts(*plan.request.cache))
      section_bytes.push_back(format::section_bytes(part.section, plan.shape));
  for (const format::Tier tier : plan.request.tiers)
    section_bytes.push_back(
        format::pack_spec(tier, plan.geometry, plan.shape, "", plan.request.zero_mode).stride);

  std::vector<File> shards;
  for (const Shard& shard : setup.checkpoint.shards()) shards.push_back(File::open_read(posix(), shard.path));
  std::vector<std::vector<std::uint8_t>> input(static_cast<std::size_t>(setup.context.threads)), output(input);
  const std::uint64_t experts = plan.geometry.experts;
  for (const SparseLayer* layer : plan.layers) {
    std::vector<File> files;
    for (std::size_t f = 0; f < section_bytes.size(); ++f)
      files.push_back(File::create(posix(), fmt::format("{}/{}.{}", setup.out, layer->index, f)));
    parallel_for(experts, setup.context.threads, [&](std::size_t e, int worker) {
      std::vector<std::uint8_t>& in = input[static_cast<std::size_t>(worker)];
      std::vector<std::uint8_t>& to = output[static_cast<std::size_t>(worker)];
      for (const ExpertTensors& tensors : layer->experts[e])
        for (const Tensor* tensor : {tensors.weight, tensors.scale}) {
          in.resize(std::max(in.size(), tensor->size));
          shards[tensor->shard].read(Bytes(in).first(tensor->size), tensor->offset);
        }
      for (std::size_t f = 0; f < files.size(); ++f) {
        to.resize(std::max(to.size(), section_bytes[f]));
        files[f].write(ConstBytes(to).first(section_bytes[f]), e * section_bytes[f]);
      }
    });
    for (File& file : files) file.sync();
  }
}

void compare(Runner& runner, Setup& setup, const std::string& name, const PlanRequest& request, double target) {
  const Plan plan = make_plan(setup.model, request);
  const std::unique_ptr<Backend> backend = make_backend({"cpu", "auto", {}});
  runner.compare(
      fmt::format("{}, {}, {} threads", name, backend->describe(), setup.context.threads), plan.read + plan.allocated(),
      target,
      [&] {
        setup.clean();
        return seconds_of([&] {
          build(setup.context, setup.checkpoint, setup.model, plan,
                {"bench", setup.out + "/planescache", setup.out + "/store", Trust::record}, *backend);
        });
      },
      [&] {
        setup.clean();
        return seconds_of([&] { plain_copy(setup, plan); });
      },
      5);
}

}  // namespace

void builders(Runner& runner) {
  const char* const folder = getenv("PLANESMITH_BENCH_CHECKPOINT");
  const char* const out = getenv("PLANESMITH_BENCH_DIR");
  if (folder == nullptr || out == nullptr) {
    if (runner.wants("build")) fmt::print("build: SKIPPED, PLANESMITH_BENCH_CHECKPOINT or PLANESMITH_BENCH_DIR is not set\n");
    return;
  }
  Context context;
  context.threads = hardware_threads();
  Checkpoint checkpoint = Checkpoint::open(context, folder);
  Model model = find_experts(checkpoint);
  Setup setup{context, std::move(checkpoint), std::move(model), std::string(out) + "/planesmith-bench"};
  PlanRequest request;
  request.layers = {setup.model.layers.front().index};
  if (setup.model.layers.size() > 1) request.layers->push_back(setup.model.layers[1].index);
  request.cache = format::Fp4Tier::nibble;
  compare(runner, setup, "build-planescache, six parts", request, 1 / 1.10);
  request.tiers = {format::Tier::base, format::Tier::delta, format::Tier::fp4};
  compare(runner, setup, "build-planescache --store, three packs", request, 1 / 1.15);
  std::filesystem::remove_all(setup.out);
}

}  // namespace planesmith::bench
