// Unpacks with a manifest: all frames are known, so several threads read them in any order. This header is
// for its two source files only; others call unpack_frames() (unpack.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "chunks/byte_source.h"
#include "chunks/frame_journal.h"
#include "chunks/frame_reader.h"
#include "chunks/target.h"
#include "chunks/unpack.h"

namespace planesmith::chunks {

class FrameUnpacker {
 public:
  FrameUnpacker(const ChunkSet& set, int input, const UnpackOptions& options, const Context& context,
                FrameFeed* feed)
      : m_(*set.manifest), set_(set), input_(input), options_(options), context_(context), feed_(feed) {}

  UnpackResult run();

 private:
  // A file to be made.
  struct Job {
    std::size_t member = 0;  // whose data
    std::string path{};      // its own, or that of a wanted hard link where the file itself is not wanted
    std::size_t first = 0, end = 0;  // the frames that hold its data
    std::size_t from = 0;            // needed from this frame on; the staged file already has the others
    bool kept = false;               // there already
    bool staged = false;             // an earlier run left an unfinished staged file
    Json stamp{};                    // of the finished file
  };

  // What to unpack (unpack_needs.cc).
  void choose_members();
  void choose_threads();
  std::string fingerprint() const;
  void look_beforehand();
  bool load_state(const Dir& staging);
  Json read_state(const Dir& staging) const;
  void save_state(const Target& target) const;
  void look_for_kept_files(const Dir& dir, const std::function<bool(std::size_t job)>& is_staged);
  bool has_contents_of(const File& file, const Member& member, Bytes buffer) const;
  void find_needed_frames();
  void check_parts() const;
  void check_space() const;
  // Unpacking it (unpack_frames.cc).
  std::vector<std::span<const std::size_t>> batches() const;
  void unpack_batches(Target& target);
  void unpack_frames(const Target& target, std::span<const std::size_t> frames);
  ConstBytes content_of(FrameReader& reader, ConstBytes frame, std::size_t f, const std::string& part) const;
  void write_frame(const Target& target, std::size_t f, ConstBytes content) const;
  void install(Target& target, std::size_t frames_done);
  void put_links_and_modes(Target& target);
  void forget_unfinished(const Target& target) const;
  void remove_parts_before(std::size_t frame);

  const ChunkManifest& m_;
  const ChunkSet& set_;
  const int input_;
  const UnpackOptions& options_;
  const Context& context_;
  UnpackResult result_;
  int threads_ = 1;
  std::vector<Job> jobs_;                    // in the order of their data
  std::vector<std::size_t> job_of_;          // by member; jobs_.size(): none
  std::vector<Member> directories_, links_;  // wanted; hard links point to jobs' paths
  Json finished_ = Json::object();           // by path, of an earlier run: stamps of files
  Json unfinished_ = Json::object();         // by path: which staged file
  std::vector<std::size_t> needed_;          // frames, ascending
  std::size_t frames_done_ = 0;              // frames whose content is durable
  std::size_t installed_ = 0;                // jobs
  std::size_t parts_removed_ = 0;
  std::unique_ptr<ByteSource> stream_;  // if the parts come from a descriptor
  FrameFeed* const feed_;               // if the frames come over the network
  std::unique_ptr<FrameJournal> journal_;
  std::vector<bool> written_;  // frames in the journal; empty without a feed
};

}  // namespace planesmith::chunks
