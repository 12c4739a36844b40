// The frames of a set on a hub, fetched ahead of the threads that unpack them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chunks/chunk_manifest.h"
#include "chunks/frame_feed.h"
#include "hub/range_reader.h"
#include "hub/source.h"

namespace planesmith::hub {

class HubFrames : public chunks::FrameFeed {
 public:
  // directory: of the parts, in the repository; empty: its root. The manifest must outlive this.
  HubFrames(const Source& source, std::string directory, const chunks::ChunkManifest& manifest,
            const RangeOptions& options, const Context& context);
  // The least options.memory: bytes of the largest range when there is room for only one.
  static std::uint64_t least_memory(const chunks::ChunkManifest& manifest);

  void expect(std::span<const std::span<const std::size_t>> batches) override;
  Arrived next(std::size_t end) override;
  bool read_again(std::size_t f, ConstBytes& frame) override;
  void done(std::size_t f) override;

 private:
  // Adjacent whole frames of a part, fetched as one range.
  struct Run {
    std::size_t begin = 0, end = 0;  // frames
    std::size_t given = 0;           // the next frame to return
    std::size_t done = 0;            // number of frames that are done
    std::size_t at_work() const { return given - begin - done; }
  };
  struct Again {
    int times = 0;
    std::vector<std::uint8_t> bytes{};
  };
  std::vector<Run> runs_of(std::span<const std::size_t> frames, std::uint64_t most) const;
  RemoteRange range_of(const Run& run) const;
  std::vector<RangeFront> wanted(std::size_t end);

  const Source& source_;
  const std::string directory_;
  const chunks::ChunkManifest& manifest_;
  const RangeOptions options_;
  const Context& context_;
  std::unique_ptr<RangeReader> reader_;
  std::vector<std::size_t> range_of_;  // by frame
  std::mutex turn_;                    // held by the one thread that waits for bytes; the others wait for it
  std::mutex mutex_;                   // guards what follows
  std::vector<Run> runs_;              // by range
  std::size_t first_run_ = 0;          // the first run with frames that were not returned
  std::map<std::size_t, Again> again_;
};

}  // namespace planesmith::hub
