#include "chunks/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/file.h"

namespace planesmith::chunks {
namespace {

using Entry = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;
using Archive = std::unique_ptr<archive, int (*)(archive*)>;

Entry entry_of(const Member& member) {
  Entry entry(archive_entry_new(), &archive_entry_free);
  if (!entry) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), member.path.c_str());
  archive_entry_set_perm(entry.get(), member.mode);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), 0);
  switch (member.type) {
    case MemberType::directory:
      archive_entry_set_filetype(entry.get(), AE_IFDIR);
      break;
    case MemberType::symlink:
      archive_entry_set_filetype(entry.get(), AE_IFLNK);
      archive_entry_set_symlink(entry.get(), member.target.c_str());
      break;
    case MemberType::hardlink:
      archive_entry_set_filetype(entry.get(), AE_IFREG);
      archive_entry_set_hardlink(entry.get(), member.target.c_str());
      break;
    case MemberType::file:
      archive_entry_set_filetype(entry.get(), AE_IFREG);
      archive_entry_set_size(entry.get(), static_cast<la_int64_t>(member.size));
      if (!member.sparse()) break;
      for (const Extent& extent : member.extents)
        archive_entry_sparse_add_entry(entry.get(), static_cast<la_int64_t>(extent.offset),
                                       static_cast<la_int64_t>(extent.size));
      if (member.extents.empty())  // nothing but a hole
        archive_entry_sparse_add_entry(entry.get(), static_cast<la_int64_t>(member.size), 0);
      break;
  }
  return entry;
}

// "./a//b/." -> "a/b"; a leading slash stays, to be refused.
std::string plain_path(std::string_view path) {
  std::string out = path.starts_with('/') ? "/" : "";
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") out = out.empty() ? std::string(part) : join(out, part);
    begin = end + 1;
  }
  return out;
}

std::vector<Extent> extents_of(archive_entry* entry, std::uint64_t size) {
  std::vector<Extent> extents;
  if (archive_entry_sparse_reset(entry) == 0) {
    append_extent(extents, 0, size);
    return extents;
  }
  la_int64_t offset = 0, length = 0;
  while (archive_entry_sparse_next(entry, &offset, &length) == ARCHIVE_OK)
    append_extent(extents, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length));
  return extents;
}

struct HeaderText {
  std::string bytes;
  bool complete = false;
};

// Only the header is wanted, but archive_write_free() would write data and an end too, and after
// archive_write_fail() it leaks. So this refuses everything after the header.
la_ssize_t append(archive*, void* to, const void* bytes, std::size_t n) {
  HeaderText& header = *static_cast<HeaderText*>(to);
  if (header.complete) return -1;
  header.bytes.append(static_cast<const char*>(bytes), n);
  return static_cast<la_ssize_t>(n);
}

}  // namespace

#ifdef PLANESMITH_PORTABLE
// The portable build's libarchive treats names as UTF-8 in every locale: the machine may only have C.
Utf8Locale::Utf8Locale() = default;
Utf8Locale::~Utf8Locale() = default;
#else
Utf8Locale::Utf8Locale() : utf8_(newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{})) {
  if (utf8_ == locale_t{})
    throw Error("the C library lacks the locale C.UTF-8, which file names in archives need");
  before_ = uselocale(utf8_);
}

Utf8Locale::~Utf8Locale() {
  uselocale(before_);
  freelocale(utf8_);
}
#endif

std::string tar_header(const Member& member) {
  const Utf8Locale utf8;
  const Entry entry = entry_of(member);
  HeaderText header;
  const Archive out(archive_write_new(), &archive_write_free);
  if (!out) throw std::bad_alloc();
  const auto check = [&](bool fine) {
    if (!fine)
      throw Error(member.path, fmt::format("no tar header can be made: {}", archive_error_string(out.get())));
  };
  // Sets every option explicitly, so that a changed default changes nothing here.
  check(archive_write_set_format_pax_restricted(out.get()) == ARCHIVE_OK);
  check(archive_write_set_format_option(out.get(), "pax", "hdrcharset", "UTF-8") == ARCHIVE_OK);
  check(archive_write_set_bytes_per_block(out.get(), 0) == ARCHIVE_OK);  // unbuffered
  check(archive_write_open(out.get(), &header, nullptr, append, nullptr) == ARCHIVE_OK);
  check(archive_write_header(out.get(), entry.get()) == ARCHIVE_OK);
  if (member.type == MemberType::file && member.sparse()) {
    // Writing the file's first byte makes libarchive write the sparse map. The byte is removed again unless
    // it lies in a hole and was not written.
    check(archive_write_data(out.get(), "", 1) == 1);
    if (!member.extents.empty() && member.extents.front().offset == 0) header.bytes.pop_back();
  }
  header.complete = true;
  return std::move(header.bytes);
}

std::string tar_writer_version() {
  return archive_version_string();
}

Member parse_tar_header(std::string_view header) {
  const Utf8Locale utf8;
  const Archive in(archive_read_new(), &archive_read_free);
  archive_entry* entry = nullptr;
  if (!in) throw std::bad_alloc();
  if (archive_read_support_format_tar(in.get()) != ARCHIVE_OK ||
      archive_read_open_memory(in.get(), header.data(), header.size()) != ARCHIVE_OK ||
      archive_read_next_header(in.get(), &entry) != ARCHIVE_OK) {
    const char* const why = archive_error_string(in.get());
    throw Error(fmt::format("not a tar header{}{}", why == nullptr ? "" : ": ", why == nullptr ? "" : why));
  }
  return member_of(entry);
}

Member member_of(archive_entry* entry) {
  const char* const path = archive_entry_pathname(entry);
  if (path == nullptr) throw Error("an entry of the archive has a name that cannot be read");
  Member member;
  member.path = plain_path(path);
  member.mode = archive_entry_perm(entry) & 07777;
  if (const char* const target = archive_entry_hardlink(entry)) {
    member.type = MemberType::hardlink;
    member.target = plain_path(target);
    return member;
  }
  const auto refuse = [&](const char* what) -> Error {
    return Error(path, fmt::format("is {}; only files, directories and links are unpacked", what));
  };
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG: {
      const la_int64_t size = archive_entry_size(entry);
      if (size < 0) throw Error(path, "has a negative size");
      member.size = static_cast<std::uint64_t>(size);
      member.extents = extents_of(entry, member.size);
      break;
    }
    case AE_IFDIR:
      member.type = MemberType::directory;
      break;
    case AE_IFLNK: {
      const char* const target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0') throw Error(path, "is a symbolic link to nothing");
      member.type = MemberType::symlink;
      member.target = target;
      break;
    }
    case AE_IFCHR:
    case AE_IFBLK:
      throw refuse("a device");
    case AE_IFIFO:
      throw refuse("a FIFO");
    default:
      throw refuse("of an unknown kind");
  }
  return member;
}

}  // namespace planesmith::chunks
