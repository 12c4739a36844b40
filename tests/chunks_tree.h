// A small tree with everything that can be in one, and words for packing it.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "base/file.h"
#include "chunks/chunk_manifest.h"
#include "chunks/pack.h"
#include "fuzz/memory_os.h"
#include "scratch.h"

namespace chunks_tree {

using namespace planesmith;

// A manifest as it is read from a file of this name.
inline chunks::ChunkManifest read_manifest(std::string_view text, const std::string& name) {
  MemoryOs os;
  os.put(name, text);
  return chunks::read_chunk_manifest(Context{.os = os}, name);
}

inline std::string noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// 64 KiB of data, holes and data again, a hole of more than one digest block, data that touch no block's
// edge.
inline void make_sparse(const std::string& path) {
  put_file(path, "");
  File file = File::open_write(posix(), path);
  file.truncate(20 * kMiB + 5);
  file.write(bytes_of(noise(65536, 1)), 0);
  file.write(bytes_of(noise(100'000, 2)), 200'001);
  file.write(bytes_of(noise(300'000, 3)), 17 * kMiB - 1000);
}

inline void make_tree(const std::string& root) {
  namespace fs = std::filesystem;
  fs::create_directories(root + "/sub/empty");
  put_file(root + "/empty.txt", "");
  put_file(root + "/noise.bin", noise(150'000, 4));
  put_file(root + "/text.txt", std::string(70'000, 'x'));
  put_file(root + "/zeros", std::string(200'000, '\0'));
  put_file(root + "/sub/n\xc3\xa4me-\xe2\x82\xac", "non-ASCII");
  put_file(root + "/sub/" + std::string(200, 'q'), "a long name");
  make_sparse(root + "/sparse.bin");
  fs::create_symlink("../noise.bin", root + "/sub/link");
  fs::create_hard_link(root + "/noise.bin", root + "/sub/other-name");
  ::chmod((root + "/text.txt").c_str(), 0640);
  ::chmod((root + "/sub/empty").c_str(), 0750);
}

inline chunks::PackOptions small_parts(const std::string& source, const std::string& out) {
  chunks::PackOptions options;
  options.sources = {source};
  options.name = "set";
  options.out = out;
  options.frame_size = 64 * kKiB;
  options.part_size = 150'000;
  return options;
}

inline chunks::PackResult pack(const chunks::PackOptions& options, const Context& context) {
  return chunks::pack(chunks::plan_pack(options, context), options, context);
}

// Every regular file of a directory with its content.
inline std::map<std::string, std::string> contents(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    if (entry.is_regular_file() && !entry.is_symlink())
      files[entry.path().lexically_relative(dir)] = file_contents(entry.path());
  return files;
}

// Whether a file is a part of the set that small_parts() makes.
inline bool is_part(const std::string& name) {
  return name.starts_with("set.");
}

}  // namespace chunks_tree
