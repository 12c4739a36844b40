#include "checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/json_stream.h"
#include "base/lfs_pointer.h"

namespace planesmith {
namespace {

struct DtypeRow {
  std::string_view name;
  unsigned bits;
};
// In the order of the enumeration.
constexpr DtypeRow kDtypes[] = {
    {"BOOL", 8},        {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},    {"F16", 16},
    {"BF16", 16},       {"U32", 32},    {"I32", 32},    {"F32", 32},    {"U64", 64},    {"I64", 64},
    {"F64", 64},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"unknown", 0}};
static_assert(std::size(kDtypes) == static_cast<std::size_t>(Dtype::other) + 1);

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
// Real files have a handful; this bounds what a header can make us keep.
constexpr std::size_t kMostMetadata = 1'000'000;

class HeaderVisitor final : public JsonVisitor {
 public:
  explicit HeaderVisitor(SafetensorsHeader& header) : header_(header) {}

  void key(std::string& name) override {
    if (depth() == 1) {
      in_metadata_ = name == kMetadataKey;
      if (in_metadata_ && metadata_seen_) throw error("\"__metadata__\" appears twice");
      metadata_seen_ |= in_metadata_;
      if (!in_metadata_) begin_tensor(name);
    } else if (depth() == 2 && in_metadata_) {
      if (header_.metadata.size() == kMostMetadata)
        throw error(fmt::format("\"__metadata__\" has more than {} entries", kMostMetadata));
      header_.metadata.emplace_back(std::move(name), std::string());
    } else if (depth() == 2) {
      begin_member(name);
    }
  }

  void open(char bracket) override {
    if (depth() == 0) {
      if (bracket != '{') throw error("the header is an array; a JSON object was expected");
    } else if (depth() == 1) {
      if (bracket != '{') throw refused("an array", in_metadata_ ? "an object of strings" : "an object");
      if (!in_metadata_) tensor().described_at = static_cast<std::uint32_t>(position());
    } else if (in_metadata_) {
      throw refused(bracket == '{' ? "an object" : "an array", "a string");
    } else if (member_ != Member::unknown) {
      const bool list = depth() == 2 && bracket == '[' && member_ != Member::dtype;
      if (!list) throw refused(bracket == '{' ? "an object" : "an array", expected());
    }
  }

  void close() override {
    if (depth() == 0) return;
    if (depth() == 1 && !in_metadata_) end_tensor();
    if (depth() == 2 && member_ == Member::data_offsets && offsets_ != 2)
      throw refused(fmt::format("{} numbers", offsets_), "two numbers");
  }

  void text(std::string& value) override {
    if (depth() == 2 && in_metadata_) {
      header_.metadata.back().second = std::move(value);
    } else if (depth() == 2 && member_ == Member::dtype) {
      tensor().dtype = parse_dtype(value);
      if (tensor().dtype == Dtype::other) tensor().dtype_text = std::move(value);
    } else {
      other("a string");
    }
  }

  void number(std::uint64_t value) override {
    if (depth() == 3 && member_ == Member::shape && !in_metadata_) {
      if (tensor().shape.size() == kMaxRank)
        throw in_tensor(fmt::format("has more than {} dimensions", kMaxRank));
      tensor().shape.push_back(value);
    } else if (depth() == 3 && member_ == Member::data_offsets && !in_metadata_) {
      if (offsets_ == 2) throw refused("more numbers", expected());
      (offsets_++ == 0 ? tensor().offset : tensor().size) = value;
    } else {
      other("a number");
    }
  }

  void other(std::string_view kind) override {
    if (depth() == 0) throw error(fmt::format("the header is {}; a JSON object was expected", kind));
    if (depth() == 1 && in_metadata_ && kind == "null") return;  // like the reference reader
    if (depth() == 1) throw refused(kind, in_metadata_ ? "an object of strings" : "an object");
    if (in_metadata_) throw refused(kind, "a string");
    if (member_ != Member::unknown) throw refused(kind, expected());
  }

 private:
  enum class Member { dtype, shape, data_offsets, unknown };

  Error error(std::string reason) const override {
    Error e = JsonVisitor::error(std::move(reason));
    return depth() >= 2 && !in_metadata_ ? e.in_tensor(tensor().name) : e;
  }

  Tensor& tensor() const { return header_.tensors.back(); }
  std::string_view expected() const {
    return member_ == Member::dtype   ? "a string"
           : member_ == Member::shape ? "a list of whole numbers"
                                      : "two numbers";
  }

  Error in_tensor(std::string reason) { return error(std::move(reason)).in_tensor(tensor().name); }
  Error refused(std::string_view found, std::string_view wanted) {
    if (in_metadata_) {
      const std::string where = depth() > 1 && !header_.metadata.empty()
                                    ? fmt::format("[\"{}\"]", header_.metadata.back().first)
                                    : "";
      return error(fmt::format("\"__metadata__\"{} is {}; {} was expected", where, found, wanted));
    }
    const std::string_view where = depth() > 1 ? std::string_view(member_name_) : "its description";
    return in_tensor(fmt::format("{} is {}; {} was expected", where, found, wanted));
  }

  void begin_tensor(std::string& name) {
    header_.tensors.emplace_back().name = std::move(name);
    seen_.clear();
    offsets_ = 0;
  }

  void begin_member(const std::string& name) {
    constexpr std::size_t kMostMembers = 16;  // three are known; some room for future ones
    if (std::find(seen_.begin(), seen_.end(), name) != seen_.end())
      throw in_tensor(fmt::format("key \"{}\" appears twice", name));
    if (seen_.size() == kMostMembers) throw in_tensor("its description has too many members");
    seen_.push_back(name);
    member_name_ = name;
    member_ = name == "dtype"          ? Member::dtype
              : name == "shape"        ? Member::shape
              : name == "data_offsets" ? Member::data_offsets
                                       : Member::unknown;
  }

  void end_tensor() {
    for (const char* name : {"dtype", "shape", "data_offsets"})
      if (std::find(seen_.begin(), seen_.end(), name) == seen_.end())
        throw in_tensor(fmt::format("its description lacks \"{}\"", name));
    Tensor& t = tensor();
    t.shape.shrink_to_fit();
    const std::uint64_t begin = t.offset, end = t.size;
    if (end < begin) throw in_tensor(fmt::format("data_offsets [{}, {}] end before they begin", begin, end));
    t.size = end - begin;
    std::uint64_t elements = 1, bit_count = 0;
    for (const std::uint64_t n : t.shape)
      if (__builtin_mul_overflow(elements, n, &elements))
        throw in_tensor(
            fmt::format("shape {} has more elements than 64 bits can count", shape_text(t.shape)));
    if (t.dtype == Dtype::other) return;
    if (__builtin_mul_overflow(elements, std::uint64_t{bits(t.dtype)}, &bit_count))
      throw in_tensor(fmt::format("shape {} has more bits than 64 bits can count", shape_text(t.shape)));
    if (bit_count % 8 != 0)
      throw in_tensor(
          fmt::format("{} of shape {} does not fill whole bytes", name(t.dtype), shape_text(t.shape)));
    if (bit_count / 8 != t.size)
      throw in_tensor(fmt::format("data_offsets [{}, {}] hold {} bytes, {} of shape {} takes {}", begin, end,
                                  t.size, name(t.dtype), shape_text(t.shape), bit_count / 8));
  }

  SafetensorsHeader& header_;
  bool metadata_seen_ = false, in_metadata_ = false;
  Member member_ = Member::unknown;
  std::string member_name_;
  std::vector<std::string> seen_;  // members of the current tensor
  int offsets_ = 0;
};

// Two numbers below count with equal names, the smaller first. Names are compared only where their hashes are
// equal: a header may have a million of them, and they share long prefixes.
template <typename NameOf>
std::optional<std::pair<std::uint32_t, std::uint32_t>> find_repeated(std::size_t count, NameOf name_of) {
  struct Item {
    std::size_t hash;
    std::uint32_t number;
  };
  std::vector<Item> items;
  items.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) items.push_back({std::hash<std::string_view>{}(name_of(i)), i});
  std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    if (a.hash != b.hash) return a.hash < b.hash;
    const int names = name_of(a.number).compare(name_of(b.number));
    return names != 0 ? names < 0 : a.number < b.number;
  });
  const auto twice = std::adjacent_find(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    return a.hash == b.hash && name_of(a.number) == name_of(b.number);
  });
  if (twice == items.end()) return std::nullopt;
  return std::pair{twice[0].number, twice[1].number};
}

void refuse_repeated_names(const File& file, const SafetensorsHeader& header) {
  const auto& tensors = header.tensors;
  const auto tensor_name = [&](std::uint32_t i) { return std::string_view(tensors[i].name); };
  if (const auto twice = find_repeated(tensors.size(), tensor_name)) {
    const Tensor &first = tensors[twice->first], &second = tensors[twice->second];
    throw Error(file.path(), fmt::format("is described twice, at byte {} and again here", first.described_at))
        .in_tensor(first.name)
        .at(second.described_at);
  }
  const auto& metadata = header.metadata;
  const auto key = [&](std::uint32_t i) { return std::string_view(metadata[i].first); };
  if (const auto twice = find_repeated(metadata.size(), key))
    throw Error(file.path(), fmt::format("\"__metadata__\" has the key \"{}\" twice", key(twice->first)))
        .at(kLengthBytes);
}

// The tensors, sorted by offset, must fill the data section from its first to its last byte.
void check_layout(const File& file, const SafetensorsHeader& header) {
  const std::uint64_t room = header.file_bytes - kLengthBytes - header.header_bytes;
  std::uint64_t end = 0;
  const Tensor* before = nullptr;
  for (const Tensor& t : header.tensors) {
    const auto refuse = [&](const std::string& reason) {
      throw Error(file.path(), reason).in_tensor(t.name).at(t.described_at);
    };
    const std::uint64_t t_end = t.offset + t.size;
    if (t.offset < end)
      refuse(fmt::format("data_offsets [{}, {}] overlap tensor '{}', which ends at {}", t.offset, t_end,
                         before->name, end));
    if (t.offset > end)
      refuse(fmt::format("data_offsets [{}, {}] leave a hole: the data before ends at {}", t.offset, t_end,
                         end));
    if (t_end > room)
      refuse(
          fmt::format("data_offsets [{}, {}] reach beyond the end of the file, which holds {} bytes of data; "
                      "was it cut short?",
                      t.offset, t_end, room));
    end = t_end;
    before = &t;
  }
  if (end < room)
    throw Error(file.path(), fmt::format("{} bytes after the last tensor belong to none", room - end))
        .at(header.file_bytes - (room - end));
}

}  // namespace

std::string_view name(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}
unsigned bits(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bits;
}

Dtype parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Dtype::other); ++i)
    if (kDtypes[i].name == text) return static_cast<Dtype>(i);
  return Dtype::other;
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string_view dtype_text(const Tensor& tensor) {
  return tensor.dtype == Dtype::other ? std::string_view(tensor.dtype_text) : name(tensor.dtype);
}

SafetensorsHeader read_safetensors_header(const File& file) {
  SafetensorsHeader header;
  header.file_bytes = file.size();
  refuse_lfs_pointer(file);
  if (header.file_bytes < kLengthBytes)
    throw Error(file.path(),
                fmt::format("has {} bytes; a safetensors file has at least 8", header.file_bytes))
        .at(0);
  std::array<std::uint8_t, kLengthBytes> length{};
  file.read(length, 0);
  for (std::size_t i = length.size(); i-- > 0;) header.header_bytes = header.header_bytes << 8 | length[i];
  if (header.header_bytes > kMaxHeaderBytes)
    throw Error(
        file.path(),
        fmt::format("header of {} bytes announced, at most {} are allowed; is this a safetensors file?",
                    header.header_bytes, kMaxHeaderBytes))
        .at(0);
  if (header.header_bytes > header.file_bytes - kLengthBytes)
    throw Error(file.path(),
                fmt::format("header of {} bytes announced, but the file has {} bytes; was it cut short?",
                            header.header_bytes, header.file_bytes))
        .at(0);

  HeaderVisitor visitor(header);
  visit_json(file, kLengthBytes, header.header_bytes, visitor);
  refuse_repeated_names(file, header);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.offset, a.size, a.described_at) < std::tie(b.offset, b.size, b.described_at);
  });
  check_layout(file, header);
  for (Tensor& tensor : header.tensors) tensor.offset += kLengthBytes + header.header_bytes;
  return header;
}

}  // namespace planesmith
