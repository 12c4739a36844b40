// The builders against a plain copy: the same input read and as many bytes written to as many files, by read
// and write calls on as many threads, made durable the same way. The input is a synthetic checkpoint of
// DeepSeek-V4-Flash's size in memory, so that only the output waits for a disk.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/machine.h"
#include "base/parallel.h"
#include "base/size.h"
#include "bench/bench.h"
#include "pipeline/build.h"
#include "pipeline/from_planescache.h"

namespace planesmith::bench {
namespace {

constexpr std::uint64_t kExperts = 32, kLayers = 2;
// Pieces of the copy's reads and writes: those of the second-level cache's size are moved fastest.
constexpr std::uint64_t kCopyPiece = 256 * kKiB;

struct Checkpoints {
  Context context;
  Checkpoint checkpoint;
  Model model;
};

Checkpoints make_checkpoint(const Directory& directory) {
  run_program("make-checkpoint", {"--out", directory / "checkpoint", "--layers", fmt::to_string(kLayers),
                                  "--experts", fmt::to_string(kExperts), "--hidden", "4096", "--intermediate",
                                  "2048", "--fill-layers", fmt::format("0-{}", kLayers - 1)});
  Context context;
  context.threads = hardware_threads();
  Checkpoint checkpoint = Checkpoint::open(context, directory / "checkpoint");
  Model model = find_experts(checkpoint);
  return {context, std::move(checkpoint), std::move(model)};
}

void empty(const std::string& directory) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  ::sync();
}

// Moves bytes of `from` at `at`, or of nowhere, into `to` at `to_offset`, or nowhere, in pieces.
void move(std::uint64_t bytes, const File* from, std::uint64_t at, File* to, std::uint64_t to_offset,
          Bytes piece) {
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    const Bytes part = piece.first(std::min<std::uint64_t>(piece.size(), bytes - done));
    if (from != nullptr) from->read(part, at + done);
    if (to != nullptr) to->write(part, to_offset + done);
  }
}

// Reads what the plan reads and writes as many bytes as it writes, file for file.
void plain_copy(const Checkpoints& input, const Plan& plan, const std::string& out) {
  std::vector<std::uint64_t> section_bytes;  // of each file a layer is written to
  if (plan.request.cache)
    for (const format::Part& part : format::cache_parts(*plan.request.cache))
      section_bytes.push_back(format::section_bytes(part.section, plan.shape));
  for (const format::Tier tier : plan.request.tiers)
    section_bytes.push_back(
        format::pack_spec(tier, plan.geometry, plan.shape, "", plan.request.zero_mode).stride);

  std::vector<File> shards;
  for (const Shard& shard : input.checkpoint.shards()) shards.push_back(File::open_read(posix(), shard.path));
  std::vector<std::vector<std::uint8_t>> pieces(static_cast<std::size_t>(input.context.threads),
                                                std::vector<std::uint8_t>(kCopyPiece));
  for (const SparseLayer* layer : plan.layers) {
    std::vector<File> files;
    for (std::size_t f = 0; f < section_bytes.size(); ++f)
      files.push_back(File::create(posix(), fmt::format("{}/{}.{}", out, layer->index, f)));
    parallel_for(plan.geometry.experts, input.context.threads, [&](std::size_t e, int worker) {
      const Bytes piece = pieces[static_cast<std::size_t>(worker)];
      for (const ExpertTensors& tensors : layer->experts[e])
        for (const Tensor* tensor : {tensors.weight, tensors.scale})
          move(tensor->size, &shards[tensor->shard], tensor->offset, nullptr, 0, piece);
      for (std::size_t f = 0; f < files.size(); ++f)
        move(section_bytes[f], nullptr, 0, &files[f], e * section_bytes[f], piece);
    });
    for (File& file : files) file.sync();
  }
}

void compare_build(Runner& runner, const Checkpoints& input, const std::string& out, const std::string& name,
                   bool waits, const PlanRequest& request, double target) {
  const Plan plan = make_plan(input.model, request);
  const std::unique_ptr<Backend> backend = make_backend({"cpu", "auto", {}});
  const auto timed = waits ? elapsed : processor_time;
  runner.compare(
      fmt::format("{}, {} threads", name, input.context.threads), plan.read + plan.allocated(), target,
      [&] {
        empty(out);
        return timed([&] {
          build(input.context, input.checkpoint, input.model, plan,
                {"bench", out + "/planescache", out + "/store", Trust::record}, *backend);
        });
      },
      [&] {
        empty(out);
        return timed([&] { plain_copy(input, plan, out); });
      },
      waits ? 5 : 9);
}

// Packs that share a cache's blocks against packs that are copied from it.
void compare_sharing(Runner& runner, const Checkpoints& input) {
  const std::string name = "build-fp4-packs --from-planescache, shared blocks";
  if (!runner.wants(name)) return;
  const Directory directory(runner.settings().sharing);
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  build(input.context, input.checkpoint, input.model, make_plan(input.model, request),
        {"bench", directory / "planescache", "", Trust::record}, *make_backend({"cpu", "auto", {}}));
  FromCacheRequest packs;
  packs.cache_root = directory / "planescache";
  packs.store = directory / "store";
  packs.tiers = {format::Tier::base, format::Tier::delta, format::Tier::fp4};
  packs.layers = {0};
  const auto seconds = [&](Reflink reflink) {
    empty(directory / "store");
    packs.reflink = reflink;
    return elapsed([&] { packs_from_planescache(input.context, packs, choose_kernels("auto")); });
  };
  empty(directory / "store");
  if (packs_from_planescache(input.context, packs, choose_kernels("auto")).shared == 0)
    return runner.skip(
        name, runner.settings().sharing + " is on a file system that shares no blocks; see --sharing-dir");
  // Against copying as this program does it, which is at least as fast as plain calls.
  runner.compare(
      name, 0, 1 / .05, [&] { return seconds(Reflink::always); }, [&] { return seconds(Reflink::never); }, 3);
}

}  // namespace

void builders(Runner& runner) {
  if (!runner.wants_any("build-")) return;
  const Directory memory(kInMemory), disk(runner.settings().directory);
  const Checkpoints input = make_checkpoint(memory);
  for (const bool on_disk : {false, true}) {
    const std::string where = on_disk ? " to disk, elapsed" : " to memory, processor time",
                      out = on_disk ? disk / "out" : memory / "out";
    PlanRequest request;
    request.cache = format::Fp4Tier::nibble;
    compare_build(runner, input, out, "build-planescache, six parts," + where, on_disk, request, 1 / 1.10);
    request.cache = format::Fp4Tier::quintal;
    if (!on_disk)
      compare_build(runner, input, out, "build-planescache --fp4 quintal," + where, on_disk, request, 0);
    request.cache = format::Fp4Tier::nibble;
    request.tiers = {format::Tier::base, format::Tier::delta, format::Tier::fp4};
    compare_build(runner, input, out, "build-planescache --store, three packs," + where, on_disk, request,
                  1 / 1.15);
    empty(out);
  }
  compare_sharing(runner, input);
}

}  // namespace planesmith::bench
