#include "tiers/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostNumber = 1 << 14;  // layers, experts of a layer
constexpr std::uint64_t kMostLine = 16 * kMiB;  // a snapshot of all possible pairs is far smaller
constexpr std::size_t kBlock = 256 * 1024;

using Place = std::pair<std::uint64_t, std::uint64_t>;  // layer, expert

struct Snapshot {
  std::uint64_t tick = 0, slots = 0, held = 0, promoted = 0, evicted = 0;
  std::set<Place> pairs;
};

std::uint64_t field(const Json& json, const char* key, const std::string& path) {
  const auto at = json.find(key);
  if (at == json.end() || !at->is_number_unsigned())
    throw Error(path, fmt::format("a snapshot of the pool lacks \"{}\", a whole number", key));
  return at->get<std::uint64_t>();
}

std::uint64_t layer_number(const std::string& text, const std::string& path) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= kMostNumber)
    throw Error(path, fmt::format("\"fp4_by_layer\" has key '{}'; a layer's number was expected", text));
  return value;
}

Snapshot parse(const Json& json, const std::string& path) {
  if (!json.is_object()) throw Error(path, "is not a snapshot of the pool: not a JSON object");
  Snapshot out;
  out.tick = field(json, "tick", path);
  out.slots = field(json, "n_slots", path);
  out.held = field(json, "cached", path);
  out.promoted = field(json, "promoted_total", path);
  out.evicted = field(json, "evicted_total", path);
  const auto layers = json.find("fp4_by_layer");
  if (layers == json.end() || !layers->is_object())
    throw Error(path, "a snapshot of the pool lacks \"fp4_by_layer\", an object of lists");
  for (const auto& [name, experts] : layers->items()) {
    const std::uint64_t layer = layer_number(name, path);
    if (!experts.is_array())
      throw Error(path, fmt::format("\"fp4_by_layer\": '{}' is not a list of experts", name));
    for (const Json& expert : experts) {
      if (!expert.is_number_unsigned() || expert.get<std::uint64_t>() >= kMostNumber)
        throw Error(path, fmt::format("\"fp4_by_layer\": '{}' lists {}; an expert's number was expected",
                                      name, expert.dump()));
      out.pairs.insert({layer, expert.get<std::uint64_t>()});
    }
  }
  return out;
}

// take(text) for each line that is not blank.
template <typename Take>
void for_each_line(const Context& context, const File& file, Take take) {
  std::string line, block(kBlock, '\0');
  const auto finish = [&] {
    if (line.find_first_not_of(" \t\r") != std::string::npos) take(line);
    line.clear();
  };
  for (std::uint64_t offset = 0;;) {
    context.check_stop();
    const std::size_t n =
        file.read_some({reinterpret_cast<std::uint8_t*>(block.data()), block.size()}, offset);
    if (n == 0) break;
    offset += n;
    std::string_view rest(block.data(), n);
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      line += rest.substr(0, end);
      if (line.size() > kMostLine)
        throw Error(file.path(), "has a line longer than any snapshot of a pool").at(offset);
      if (end == std::string_view::npos) break;
      finish();
      rest.remove_prefix(end + 1);
    }
  }
  finish();
}

// Whether the file is one object, perhaps over several lines.
bool is_one_document(Os& os, const File& file, Json& out) {
  if (file.size() > kMostLine) return false;
  try {
    out = read_json(os, file.path(), kMostLine);
    return true;
  } catch (const Error&) {
    return false;  // reading line by line reports the error
  }
}

class History {
 public:
  void add(const Snapshot& snapshot) {
    if (out_.snapshots == 0) {
      first_ = snapshot;
    } else {
      std::uint64_t fresh = 0;
      for (const Place& place : snapshot.pairs) fresh += !last_.pairs.contains(place);
      if (!snapshot.pairs.empty())
        churn_ += static_cast<double>(fresh) / static_cast<double>(snapshot.pairs.size());
    }
    ++out_.snapshots;
    if (snapshot.slots != 0)
      occupancy_ += static_cast<double>(snapshot.held) / static_cast<double>(snapshot.slots);
    for (const Place& place : snapshot.pairs) ++held_[place];
    last_ = snapshot;
  }

  PoolHistory finish() {
    if (out_.snapshots == 0) return out_;
    out_.first_tick = first_.tick;
    out_.last_tick = std::max(first_.tick, last_.tick);
    out_.slots = last_.slots;
    // The engine's counters restart with the server.
    out_.promotions = last_.promoted >= first_.promoted ? last_.promoted - first_.promoted : last_.promoted;
    out_.evictions = last_.evicted >= first_.evicted ? last_.evicted - first_.evicted : last_.evicted;
    out_.occupancy = occupancy_ / static_cast<double>(out_.snapshots);
    if (out_.snapshots > 1) out_.churn = churn_ / static_cast<double>(out_.snapshots - 1);
    std::set<std::uint64_t> layers;
    for (const Place& place : last_.pairs) layers.insert(place.first);
    out_.layers_covered = layers.size();
    for (const auto& [place, snapshots] : held_) out_.held.push_back({place.first, place.second, snapshots});
    std::stable_sort(out_.held.begin(), out_.held.end(),
                     [](const auto& a, const auto& b) { return a.snapshots > b.snapshots; });
    return out_;
  }

 private:
  PoolHistory out_;
  Snapshot first_, last_;
  std::map<Place, std::uint64_t> held_;
  double occupancy_ = 0, churn_ = 0;
};

}  // namespace

bool is_snapshot_file(Os& os, const std::string& path) {
  std::uint8_t first = 0;
  return File::open_read(os, path).read_some({&first, 1}, 0) == 1 && first == '{';
}

PoolHistory read_snapshots(const Context& context, const std::vector<std::string>& paths) {
  History history;
  for (const std::string& path : paths) {
    const File file = File::open_read(context.os, path);
    if (Json document; is_one_document(context.os, file, document)) {
      history.add(parse(document, path));
      continue;
    }
    for_each_line(context, file,
                  [&](const std::string& line) { history.add(parse(parse_json(line, path), path)); });
  }
  return history.finish();
}

}  // namespace planesmith
