#include "chunks/stream_reader.h"

#include <string.h>

#include <optional>

#include "chunks/tar.h"

namespace planesmith::chunks {

void read_stream(const Layout& layout, const std::vector<Origin>& origins, const Context& context,
                 std::uint64_t offset, Bytes to) {
  std::optional<File> file;
  std::size_t file_member = 0;
  const auto done_with_file = [&] {
    if (file) check_unchanged(*file, origins[file_member]);
    file.reset();
  };
  layout.visit(offset, to.size(), [&](const Piece& piece) {
    const Bytes part = to.subspan(piece.stream_offset - offset, piece.size);
    switch (piece.kind) {
      case Piece::Kind::header:
        memcpy(part.data(), tar_header(layout.members()[piece.member]).data() + piece.offset, part.size());
        break;
      case Piece::Kind::data:
        if (!file || file_member != piece.member) {
          done_with_file();
          file = File::open_read(context.os, origins[piece.member].path);
          file_member = piece.member;
        }
        file->read(part, piece.offset);
        break;
      case Piece::Kind::padding:
        memset(part.data(), 0, part.size());
        break;
    }
  });
  done_with_file();
}

}  // namespace planesmith::chunks
