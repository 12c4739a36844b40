// The frames of a set that lies on a hub, fetched ahead of those who unpack them.
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
  // directory: of the parts, in the repository; empty: its root. The manifest outlives this.
  HubFrames(const Source& source, std::string directory, const chunks::ChunkManifest& manifest,
            const RangeOptions& options, const Context& context);

  void expect(std::span<const std::size_t> frames) override;
  ConstBytes read(std::size_t f) override;
  bool read_again(std::size_t f, ConstBytes& frame) override;
  void done(std::size_t f) override;

  std::uint64_t received() const { return reader_ ? reader_->received() : 0; }

 private:
  struct Again {
    int times = 0;
    std::vector<std::uint8_t> bytes{};
  };
  static constexpr std::size_t kNowhere = SIZE_MAX;

  const Source& source_;
  const std::string directory_;
  const chunks::ChunkManifest& manifest_;
  const RangeOptions options_;
  const Context& context_;
  std::unique_ptr<RangeReader> reader_;
  std::vector<RemoteRange> ranges_;    // whole frames each
  std::vector<std::size_t> range_of_;  // by frame; kNowhere: not expected
  std::mutex mutex_;                   // guards what follows
  std::vector<std::size_t> left_;      // by range: frames that are not done
  std::map<std::size_t, Again> again_;
};

}  // namespace planesmith::hub
