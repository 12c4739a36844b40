// A manifest of chunks decides which bytes end up in which file: nothing in it is taken on trust.
#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "chunks/chunk_manifest.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;

TEST_CASE("a manifest comes back as it was written; contradictions are refused") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  chunks_tree::pack(chunks_tree::small_parts(scratch / "tree", scratch / "out"), Context{});
  const std::string text = file_contents(scratch / "out/manifest.set.json");
  CHECK(to_json(chunks_tree::read_manifest(text, "m")) == text);

  std::string changed = text;
  changed[changed.find("tree/")] = 'T';
  CHECK_THROWS_WITH_AS(chunks_tree::read_manifest(changed, "m"),
                       doctest::Contains("was changed after it was written"), Error);

  Json good = Json::parse(text);
  good.erase("digest");
  int refusals = 0;
  const auto refused = [&](const std::function<void(Json & chunks, Json & document)>& change) {
    Json document = good;
    change(document["chunks"], document);
    ++refusals;
    try {
      chunks_tree::read_manifest(document.dump(), "m");
      FAIL_CHECK("change number " << refusals << " was accepted");
    } catch (const Error& error) {
      CHECK(error.path() == "m");
      CHECK(error.code() == ErrorCode::failed);
    }
  };
  const auto member = [](Json& chunks, const std::string& path) -> Json& {
    for (Json& found : chunks["members"])
      if (found["path"] == path) return found;
    throw Error(path, "is no member");
  };
  refused([](Json&, Json& d) { d["kind"] = "tree"; });
  refused([](Json& c, Json&) { c["more"] = 1; });
  refused([](Json& c, Json&) { c["name"] = "../set"; });
  refused([](Json& c, Json&) { c["name"] = "other"; });
  refused([](Json& c, Json&) { c["level"] = 20; });
  refused([](Json& c, Json&) { c["frame_size"] = 0; });
  refused([](Json& c, Json&) { c["frame_size"] = 128 * kKiB; });
  refused([](Json& c, Json&) { c["stream_size"] = 1024; });
  refused([](Json& c, Json&) { c["stream_size"] = c["stream_size"].get<std::uint64_t>() + 64 * kKiB; });
  refused([](Json& c, Json&) { c["frames"].erase(c["frames"].size() - 1); });
  refused([](Json& c, Json&) { c["frames"][1]["offset"] = 0; });
  refused([](Json& c, Json&) { c["frames"][1]["part"] = 7; });
  refused([](Json& c, Json&) { c["frames"][1]["size"] = 100 * kKiB; });
  refused([](Json& c, Json&) { c["frames"][1]["xxh3"] = "00"; });
  refused([](Json&, Json& d) { d["files"].erase(1); });
  refused([](Json&, Json& d) { d["files"][1]["size"] = d["files"][1]["size"].get<std::uint64_t>() + 1; });
  refused([](Json&, Json& d) { d["files"][1]["path"] = "set.tar.zst.part.01"; });
  refused([](Json&, Json& d) { d["files"] = Json::array(); });
  for (const char* path : {"/etc/passwd", "../x", "a/../../x", "", ".", "tree//x", "a/./b"})
    refused([&](Json& c, Json&) { c["members"][1]["path"] = path; });
  refused([](Json& c, Json&) { c["members"][1]["path"] = "tree"; });
  refused([](Json& c, Json&) { c["members"][1]["path"] = "zzz"; });
  refused([](Json& c, Json&) { c["members"][1]["type"] = "fifo"; });
  refused([](Json& c, Json&) { c["members"][1]["mode"] = 010000; });
  refused([](Json& c, Json&) { c["members"][1]["offset"] = 0; });
  refused([&](Json& c, Json&) { member(c, "tree/sub/link").erase("target"); });
  refused([&](Json& c, Json&) { member(c, "tree/sub/link")["size"] = 1; });
  refused([&](Json& c, Json&) { member(c, "tree/sub/other-name")["target"] = "tree/sub/link"; });
  refused([&](Json& c, Json&) { member(c, "tree/sub/other-name")["target"] = "/etc/passwd"; });
  refused([&](Json& c, Json&) { member(c, "tree/noise.bin")["size"] = 150'001 + 512; });
  refused([&](Json& c, Json&) { member(c, "tree/noise.bin")["data_offset"] = 1; });
  refused([&](Json& c, Json&) { member(c, "tree/noise.bin")["blocks"] = Json::array(); });
  refused([&](Json& c, Json&) { member(c, "tree/noise.bin")["xxh3"] = std::string(32, '0'); });
  refused([&](Json& c, Json&) { member(c, "tree/sparse.bin")["extents"][1][0] = 5; });
  refused([&](Json& c, Json&) { member(c, "tree/sparse.bin")["extents"][1][1] = -5; });
  refused([&](Json& c, Json&) { member(c, "tree/sparse.bin")["extents"].erase(1); });
  CHECK(refusals == 41);
}
