// A shard that becomes another file while it is read: what gets a final name was made of the checkpoint as it
// was when it was opened, or the run ends with an error that names the shard. With one thread and with three.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <set>

#include "base/error.h"
#include "pipeline/from_planescache.h"
#include "repack/repack.h"
#include "rewrite/finish.h"
#include "rewrite/quantize.h"
#include "rewrite/translate.h"
#include "rewrite_checkpoints.h"
#include "unit/build_fixture.h"

using namespace planesmith;
using namespace planesmith::test;
namespace fs = std::filesystem;

namespace {

enum class How { replaced, older, truncated, rewritten };
constexpr How kHows[] = {How::replaced, How::older, How::truncated, How::rewritten};

// Does it once, before the nth read from the file, which may be open or not by then.
class MeddlingOs : public HastyOs {
 public:
  MeddlingOs(std::string path, std::uint64_t nth, std::function<void()> meddle)
      : path_(std::move(path)), nth_(nth), meddle_(std::move(meddle)) {}
  std::uint64_t reads() const { return reads_; }
  bool meddled() const { return reads_ >= nth_; }

  int open(const char* path, int flags, mode_t mode) override {
    const int fd = Os::open(path, flags, mode);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd >= 0 && path == path_) fds_.insert(fd);
    return fd;
  }
  int close(int fd) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    fds_.erase(fd);
    return Os::close(fd);
  }
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (fds_.contains(fd) && ++reads_ == nth_) meddle_();
    }
    return Os::pread(fd, to, n, offset);
  }

 private:
  const std::string path_;
  const std::uint64_t nth_;
  const std::function<void()> meddle_;
  std::mutex mutex_;
  std::set<int> fds_;
  std::atomic<std::uint64_t> reads_{0};
};

// The same file with other weights, which can be converted as well.
std::string with_other_weights(const std::string& shard) {
  std::string bytes = file_contents(shard);
  const SafetensorsHeader header = read_safetensors_header(File::open_read(posix(), shard));
  for (const Tensor& tensor : header.tensors)
    if (tensor.name.ends_with("weight") || tensor.name.ends_with("weight_packed"))
      for (std::uint64_t i = tensor.offset + 1; i < tensor.offset + tensor.size; i += 2)
        bytes[i] = static_cast<char>(bytes[i] ^ 0x80);  // a sign, whatever the type is
  return bytes;
}

struct Bench {
  const Scratch scratch;
  const std::string source = scratch / "source", out = scratch / "out";
  std::function<void(const Context&)> work;

  using Files = std::map<std::string, std::string>;
  // Everything under a final name, but for records.
  Files made() const {
    Files files;
    if (!fs::exists(out)) return files;
    for (auto entry = fs::recursive_directory_iterator(out); entry != fs::recursive_directory_iterator();
         ++entry) {
      const std::string name = entry->path().filename();
      if (name[0] == '.') entry.disable_recursion_pending();
      if (name[0] != '.' && !name.ends_with(".tmp") && !name.ends_with(".lock") && entry->is_regular_file())
        files[fs::relative(entry->path(), out)] = file_contents(entry->path());
    }
    return files;
  }

  // What a reader takes must be right. A pack's sidecar says which of its rows count.
  void check_final(const Files& want) const {
    for (const auto& [path, bytes] : made()) {
      if (path.ends_with(".json") && !path.ends_with("manifest.json") && path.starts_with("store/")) {
        const format::Sidecar sidecar = format::parse_sidecar(bytes, path);
        const std::string pack = path.substr(0, path.size() - 4) + "pack", found = made().at(pack);
        const std::uint64_t layer = sidecar.spec.experts * sidecar.spec.stride;
        for (const std::uint64_t key : sidecar.layer_keys)
          CHECK((found.compare(key * layer, layer, want.at(pack), key * layer, layer) == 0));
      } else if (!path.ends_with(".pack")) {
        REQUIRE(want.contains(path));
        CHECK((bytes == want.at(path)));
      }
    }
  }

  // Each way, at every read of the shard behind those of its header. `within`: of this directory.
  void meddle_with(const std::string& shard, const std::string& within = "source") {
    CAPTURE(shard);
    const std::string path = scratch / within + "/" + shard;
    const std::string good = file_contents(path), other = with_other_weights(path);
    const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
    work(hasty_context());
    const Files want = made();
    MeddlingOs looks(path, UINT64_MAX, [] {});
    Checkpoint::open(Context{.os = looks}, scratch / within);
    std::uint64_t refused = 0, runs = 0;
    for (const int threads : {1, 3})
      for (const How how : kHows)
        for (std::uint64_t nth = looks.reads() + 1;; nth += 3) {
          put_file(path, good);
          fs::last_write_time(path, long_ago);
          fs::remove_all(out);
          MeddlingOs os(path, nth, [&] {
            if (how == How::truncated) return fs::resize_file(path, good.size() / 2);
            if (how == How::rewritten) return put_file(path, other);
            put_file(path + ".new", other);
            if (how == How::older) fs::last_write_time(path + ".new", long_ago - std::chrono::hours(1));
            fs::rename(path + ".new", path);
          });
          std::string error;
          try {
            work(Context{.os = os, .threads = threads});
          } catch (const Error& thrown) {
            error = thrown.what();
          }
          CAPTURE(threads);
          CAPTURE(static_cast<int>(how));
          CAPTURE(nth);
          CAPTURE(error);
          if (!os.meddled()) {
            CHECK(error == "");
            CHECK((made() == want));
            break;
          }
          ++runs;
          refused += error.empty() ? 0 : 1;
          CHECK((error.empty() || error.find(shard) != error.npos));
          if (error.empty()) CHECK((made() == want));
          check_final(want);
        }
    CHECK(runs > 8);
    CHECK(refused == runs);
    put_file(path, good);
    fs::last_write_time(path, long_ago);
    fs::remove_all(out);
  }
};

}  // namespace

TEST_CASE("build-planescache and build-fp4-packs: a shard becomes another file") {
  Bench bench;
  copy_tree(golden("ds4-mini") + "/checkpoint", bench.source);
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  request.tiers = {format::Tier::base, format::Tier::fp4};
  bench.work = [&](const Context& context) { build_into(context, bench.source, request, "pin", bench.out); };
  for (const char* shard : {"model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors"})
    bench.meddle_with(shard);
}

TEST_CASE("repack-experts build: a shard becomes another file") {
  Bench bench;
  copy_tree(golden("ds4-mini") + "/checkpoint", bench.source);
  RepackOptions options;
  options.source = bench.source;
  options.target = bench.out;
  options.link = LinkMode::copy;
  bench.work = [&](const Context& context) { repack(context, options); };
  for (const Granularity granularity : {Granularity::tensor, Granularity::expert, Granularity::row}) {
    options.granularity = granularity;
    bench.meddle_with("model-00003-of-00004.safetensors");
  }
}

TEST_CASE("repack-experts quantize, translate and finish: a shard becomes another file") {
  Bench bench;
  RewriteOptions options;
  options.source = bench.source;
  options.target = bench.out;
  options.link = LinkMode::copy;
  SUBCASE("quantize") {
    make_floats(bench.source);
    bench.work = [&](const Context& context) { quantize(context, Fp4::nvfp4, options); };
    bench.meddle_with("model-1.safetensors");
  }
  SUBCASE("translate") {
    make_packed(bench.source);
    bench.work = [&](const Context& context) { translate(context, {.rewrite = options}); };
    bench.meddle_with("model-1.safetensors");
  }
  SUBCASE("finish, which takes drafters from another checkpoint") {
    make_floats(bench.scratch / "floats");
    put_safetensors(bench.scratch / "floats/mtp.safetensors",
                    {{"mtp.0.norm.weight", "BF16", {1 << 20}}, {"mtp.0.eh_proj.weight", "BF16", {1 << 20}}});
    fs::remove(bench.scratch / "floats/model.safetensors.index.json");
    make_floats(bench.source);
    options.source = bench.scratch / "quantized";
    RewriteOptions first = options;
    first.source = bench.source;
    first.target = options.source;
    quantize(Context{}, Fp4::nvfp4, first);
    bench.work = [&](const Context& context) { finish(context, bench.scratch / "floats", options); };
    bench.meddle_with("mtp.safetensors", "floats");
  }
}

TEST_CASE("packs from a cache without a manifest: a part becomes another file") {
  const Scratch scratch;
  PlanRequest request;
  request.cache = format::Fp4Tier::nibble;
  build_into(hasty_context(), golden("ds4-mini") + "/checkpoint", request, "pin", scratch / "built");
  const std::string rank = scratch / "built/planescache/" +
                           format::cache_directory({"pin", 1, 0, format::ZeroMode::automatic, false});
  fs::remove(rank + "/manifest.json");
  const std::string part = rank + "/layer1.fp13.bin", good = file_contents(part);
  FromCacheRequest from;
  from.cache_root = scratch / "built/planescache";
  from.store = scratch / "store";
  from.model = model_of_config(posix(), golden("ds4-mini") + "/checkpoint");
  from.tiers = {format::Tier::base, format::Tier::fp4};
  for (const Reflink reflink : {Reflink::automatic, Reflink::never})
    for (const int threads : {1, 3}) {
      from.reflink = reflink;
      put_file(part, good);
      fs::remove_all(scratch / "store");
      MeddlingOs os(part, 2, [&] {
        put_file(part + ".new", std::string(good.size(), '\x11'));
        fs::rename(part + ".new", part);
      });
      CHECK_THROWS_WITH_AS(
          packs_from_planescache(Context{.os = os, .threads = threads}, from, kScalarKernels),
          doctest::Contains("layer1.fp13.bin: changed since it was opened"), Error);
    }
}
