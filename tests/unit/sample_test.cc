// The engine's own caches and packs against the checkpoints they were made from; single changed elements are
// named.
#include "verify/sample.h"

#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "format/planes.h"
#include "served.h"
#include "verify/report.h"

namespace {

SampleReport compare(const Served& served, const SampleRequest& request = {}, int threads = 2) {
  const Context context{.threads = threads};
  const Checkpoint checkpoint = Checkpoint::open(context, served.checkpoint());
  const Model model = find_experts(checkpoint);
  const Store store = scan_store(posix(), served.root, served.store);
  const BootVerdict verdict =
      probe(posix(), store, complete({}, store), model_of_checkpoint(model, served.checkpoint()));
  return compare_with_checkpoint(context, store, verdict, checkpoint, model, request);
}

void change_byte(const std::string& path, std::uint64_t offset, std::uint8_t mask) {
  File file = File::open_write(posix(), path);
  std::uint8_t byte = 0;
  file.read({&byte, 1}, offset);
  byte ^= mask;
  file.write({&byte, 1}, offset);
}

}  // namespace

TEST_CASE("what the engine made of a checkpoint is what these kernels make of it") {
  for (const char* name :
       {"ds4-mini", "fp8-edge", "glm-fp8-mini", "glm-nvfp4-mini", "kimi-nvfp4-mini", "nvfp4-edge"}) {
    CAPTURE(name);
    const SampleReport report = compare(Served(name));
    CHECK(report.differences.empty());
    CHECK(report.experts > 0);
    CHECK(report.bytes > 100000);
  }
}

TEST_CASE("a changed element is named by tensor, row and column") {
  const Served served("ds4-mini");  // world 1, hidden 192, intermediate 128
  const format::RankShape shape = format::rank_shape({2, 3, 192, 128}, 1);

  SUBCASE("a nibble of w3 in the planes cache") {
    const std::string part = served.directory + "/layer1.fp13.bin";
    const std::uint64_t offset =
        2 * format::section_bytes(format::Section::fp13, shape) + format::nibble_offset(128 + 5, 10, 192) + 1;
    change_byte(part, offset, 0x03);  // columns 10 and 11: the low nibble is column 10
    const SampleReport report = compare(served);
    REQUIRE(report.differences.size() == 1);
    const ContentDifference& difference = report.differences[0];
    CHECK(difference.path == part);
    CHECK(difference.offset == offset);
    CHECK(difference.layer == 1);
    CHECK(difference.expert == 2);
    CHECK(difference.section == "fp13");
    CHECK(difference.tensor == "layers.1.ffn.experts.2.w3.weight");
    CHECK(difference.row == 5);
    CHECK(difference.col == 10);
    CHECK(difference.repair.find(
              "build-planescache " + real_path(served.checkpoint()) + " --out " + served.root +
              " --fp4 nibble --ckpt-id golden-ds4-mini --world 1 --rank 0 --zero-mode auto "
              "--layers 1 --force") == 0);
    // What the checkpoint has there.
    const Checkpoint checkpoint = Checkpoint::open(Context{}, served.checkpoint());
    const Tensor* weight = checkpoint.find(difference.tensor);
    REQUIRE(weight != nullptr);
    std::uint8_t byte = 0;
    File::open_read(posix(), checkpoint.shard_path(*weight)).read({&byte, 1}, weight->offset + 5 * 96 + 5);
    CHECK(difference.expected.starts_with(fmt::format("nibble {:#x} ", byte & 15)));
    CHECK(difference.found.starts_with(fmt::format("nibble {:#x} ", (byte & 15) ^ 3)));
    CHECK(has(to_text(report), "layers.1.ffn.experts.2.w3.weight', row 5, column 10: found nibble"));
  }
  SUBCASE("a scale of w2 in a pack") {
    const format::Sidecar sidecar =
        format::parse_sidecar(file_contents(served.stem.at("base") + ".json"), "");
    std::uint64_t offset = sidecar.spec.row_offset(1, 1) + format::scale_offset(100, 64, 128);
    for (const format::Section section :
         {format::Section::planes13, format::Section::sc13, format::Section::planes2})
      offset += format::section_bytes(section, shape);
    change_byte(served.stem.at("base") + ".pack", offset, 0xFF);
    const SampleReport report = compare(served);
    REQUIRE(report.differences.size() == 1);
    CHECK(report.differences[0].section == "sc2");
    CHECK(report.differences[0].tensor == "layers.1.ffn.experts.1.w2.scale");
    CHECK(report.differences[0].row == 100);
    CHECK(report.differences[0].col == 2);
    CHECK(has(report.differences[0].repair, "build-fp4-packs"));
    CHECK(has(report.differences[0].repair, "--tiers base"));
  }
  SUBCASE("the padding of a pack's row") {
    const format::Sidecar sidecar = format::parse_sidecar(file_contents(served.stem.at("fp4") + ".json"), "");
    change_byte(served.stem.at("fp4") + ".pack", sidecar.spec.row_offset(0, 2) + sidecar.spec.slot_bytes, 1);
    const SampleReport report = compare(served);
    REQUIRE(report.differences.size() == 1);
    CHECK(report.differences[0].section == "padding");
    CHECK(report.differences[0].found == "0x01");
    CHECK(report.differences[0].expert == 2);
  }
  SUBCASE("the first of several, for any thread count") {
    const std::string part = served.directory + "/layer0.planes2.bin";
    const std::uint64_t bytes = format::section_bytes(format::Section::planes2, shape);
    for (const std::uint64_t expert : {2, 0, 1})
      change_byte(part, expert * bytes + format::code_offset(7, 33, 128), 0x10);
    for (const int threads : {1, 3}) {
      const SampleReport report = compare(served, {}, threads);
      REQUIRE(report.differences.size() == 1);
      CHECK(report.differences[0].expert == 0);
      CHECK(report.differences[0].row == 7);
    }
  }
  SUBCASE("what misses has nothing to compare") {
    std::filesystem::resize_file(served.directory + "/layer0.sc2.bin", 5);
    CHECK(compare(served).differences.empty());
  }
}

TEST_CASE("the scale of a requantized family is named by the weights it was made of") {
  const Served served;  // glm-nvfp4-mini: layer 1 is the first sparse one
  const format::RankShape shape = format::rank_shape({3, 3, 192, 128}, 1);
  change_byte(served.directory + "/layer1.sc13.bin",
              format::section_bytes(format::Section::sc13, shape) + format::scale_offset(17, 96, 192), 1);
  const SampleReport report = compare(served);
  REQUIRE(report.differences.size() == 1);
  CHECK(report.differences[0].tensor.ends_with("layers.1.mlp.experts.1.gate_proj.weight"));
  CHECK(report.differences[0].row == 17);
  CHECK(report.differences[0].col == 96);
}

TEST_CASE("a sample is so many experts, the same for the same seed") {
  const Served served("ds4-mini");
  const std::uint64_t bytes =
      format::section_bytes(format::Section::planes2, format::rank_shape({2, 3, 192, 128}, 1));
  for (std::uint64_t layer = 0; layer < 2; ++layer)
    for (std::uint64_t expert = 0; expert < 3; ++expert)
      change_byte(served.directory + "/layer" + std::to_string(layer) + ".planes2.bin", expert * bytes, 1);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const SampleReport report = compare(served, {1, seed});
    CHECK(report.experts == 1);
    REQUIRE(report.differences.size() == 1);
    const auto place = std::pair(report.differences[0].layer, report.differences[0].expert);
    seen.insert(place);
    const SampleReport again = compare(served, {1, seed}, 1);
    CHECK(std::pair(again.differences[0].layer, again.differences[0].expert) == place);
  }
  CHECK(seen.size() == 6);
  CHECK(compare(served, {100, 1}).experts == 6);
}

TEST_CASE("too little memory is refused with what would do") {
  const Served served("ds4-mini");
  const Context context{.memory = 1000};
  const Checkpoint checkpoint = Checkpoint::open(Context{}, served.checkpoint());
  const Model model = find_experts(checkpoint);
  const Store store = scan_store(posix(), served.root, served.store);
  const BootVerdict verdict = probe(posix(), store, complete({}, store), model_of_checkpoint(model, ""));
  try {
    compare_with_checkpoint(context, store, verdict, checkpoint, model, {});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.reason(), "the smallest that works is"));
  }
}
