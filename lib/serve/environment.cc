#include "serve/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/pin.h"

namespace planesmith {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string reason) {
  throw Error(ErrorCode::usage, path, std::move(reason));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Without the underscores that Python allows between digits.
std::string without_underscores(std::string_view text) {
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || i == 0 || !digit(i - 1) || !digit(i + 1)) out += text[i];
  return out;
}

std::string variable(std::string_view name) {
  return name.empty() ? std::string(kPrefix) : fmt::format("{}_{}", kPrefix, name);
}

// Parses values as the engine does and records those that it could not parse.
class Reader {
 public:
  Reader(const Environment& environment, Findings& findings)
      : environment_(environment), findings_(findings) {}

  const std::string* find(std::string_view name) const {
    const auto at = environment_.find(variable(name));
    return at == environment_.end() ? nullptr : &at->second;
  }
  bool is_one(std::string_view name, bool otherwise) const {
    const std::string* value = find(name);
    if (value == nullptr) return otherwise;
    if (*value != "0" && *value != "1")
      warn(name, *value, "is neither 0 nor 1; the engine takes anything but 1 as off");
    return *value == "1";
  }
  std::string text(std::string_view name) const {
    const std::string* value = find(name);
    return value == nullptr ? "" : std::string(stripped(*value));
  }
  // A number of GiB as Python's float() reads it; none: the engine would fail on it.
  std::optional<double> number(std::string_view name, std::string_view text) const {
    const std::string value = without_underscores(stripped(text));
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const bool hexadecimal = value.find_first_of("xX") != value.npos;
    if (!value.empty() && end == value.c_str() + value.size() && std::isfinite(number) && !hexadecimal)
      return number;
    problem(name, text, "is not a number; the engine would not start");
    return std::nullopt;
  }
  std::optional<std::uint64_t> whole(std::string_view name, std::string_view text) const {
    const std::string value = without_underscores(stripped(text));
    const char* const begin = value.data() + (value.starts_with('+') ? 1 : 0);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(begin, value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) return number;
    problem(name, text, "is not a whole number; the engine would not start");
    return std::nullopt;
  }
  void problem(std::string_view name, std::string_view value, std::string_view what) const {
    findings_.problems.push_back(fmt::format("{}={} {}", variable(name), value, what));
  }
  void warn(std::string_view name, std::string_view value, std::string_view what) const {
    findings_.warnings.push_back(fmt::format("{}={} {}", variable(name), value, what));
  }

 private:
  const Environment& environment_;
  Findings& findings_;
};

void read_pools(const Reader& reader, EngineSettings& settings) {
  bool delta_given = false;
  if (const std::string* value = reader.find("DELTA_GB")) {
    delta_given = true;
    const std::string text = lower(stripped(*value));
    settings.delta_auto = text == "auto" || text == "-1" || text == "-1.0";
    settings.delta_gb = settings.delta_auto ? 0 : reader.number("DELTA_GB", text).value_or(0);
  }
  if (const std::string* value = reader.find("BASE_CACHE_GB"))
    settings.base_cache_gb = reader.number("BASE_CACHE_GB", *value).value_or(0);
  settings.switches.split = reader.is_one("DELTA_SPLIT", false);
  settings.switches.host = settings.base_cache_gb > 0;
  const bool pool = settings.switches.host ? delta_given && settings.delta_gb > 0
                                           : settings.delta_gb > 0 || settings.delta_auto;
  settings.switches.fp4 = reader.is_one("DELTA", true) && pool;
  if (settings.switches.host && settings.delta_auto)
    reader.warn("DELTA_GB", "auto",
                "counts as 0 where BASE_CACHE_GB is set: there is no FP4 tier; give a number of GiB");
}

}  // namespace

std::pair<std::string, std::string> parse_assignment(std::string_view text, std::string_view option) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) refuse("", fmt::format("{}: '{}' is not NAME=VALUE", option, text));
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Environment parse_env_file(std::string_view text, const std::string& path, const Environment& inherited) {
  constexpr std::string_view kBlank = " \t\v\f\r";
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Environment out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    if (name.empty()) refuse(path, fmt::format("line {} has no name before the '='", number));
    if (name.find_first_of(kBlank) != name.npos)
      refuse(path, fmt::format("line {}: the name '{}' has white space in it, which docker refuses; an env "
                               "file has NAME=VALUE, without 'export'",
                               number, name));
    if (equals != line.npos)
      out[std::string(name)] = line.substr(equals + 1);
    else if (const auto found = inherited.find(std::string(name)); found != inherited.end())
      out[std::string(name)] = found->second;
  }
  return out;
}

EngineSettings read_settings(const Environment& environment, Findings& findings) {
  const Reader reader(environment, findings);
  EngineSettings settings;
  settings.enabled = reader.is_one("", false);
  if (const std::string* root = reader.find("PLANES_CACHE"); root != nullptr && !root->empty())
    settings.planes_cache = *root;
  settings.store_dir = reader.text("STORE_DIR");
  settings.ckpt_id = reader.text("CKPT_ID");
  if (const std::string* value = reader.find("ZERO_MODE")) {
    const std::string text = lower(stripped(*value));
    const auto* const found = std::find_if(std::begin(format::kZeroModes), std::end(format::kZeroModes),
                                           [&](format::ZeroMode mode) { return name(mode) == text; });
    if (found == std::end(format::kZeroModes))
      reader.problem("ZERO_MODE", *value, "is not one of auto, sign, alt; the engine would not start");
    else
      settings.zero_mode = *found;
  }
  read_pools(reader, settings);
  if (const std::string* value = reader.find("NUM_LAYERS"))
    settings.num_layers = reader.whole("NUM_LAYERS", *value);
  settings.draft = reader.is_one("DRAFT", false);
  if (const std::string* value = reader.find("KS")) {
    std::string_view rest = *value;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (const auto k = reader.whole("KS", rest.substr(0, comma))) settings.ks.push_back(*k);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  } else {
    settings.ks.assign(std::begin(format::kDefaultKs), std::end(format::kDefaultKs));
  }
  if (settings.planes_cache && stripped(*settings.planes_cache).size() != settings.planes_cache->size())
    reader.warn("PLANES_CACHE", fmt::format("'{}'", *settings.planes_cache),
                "begins or ends with white space, which the engine does not strip: it would look in another "
                "directory");
  return settings;
}

Environment environment_of(const Serving& serving) {
  const format::ModeSwitches mode = format::switches(serving.mode);
  Environment out;
  const auto set = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) out[variable(name)] = value;
  };
  set("", "1");
  set("CKPT_ID", serving.ckpt_id);
  set("PLANES_CACHE", serving.planes_cache);
  if (!format::packs(serving.mode).empty()) set("STORE_DIR", serving.store);
  if (serving.zero_mode != format::ZeroMode::automatic) set("ZERO_MODE", name(serving.zero_mode));
  if (!mode.host && !mode.fp4) set("DELTA", "0");
  if (mode.fp4 && mode.split) set("DELTA_SPLIT", "1");
  if (mode.host) {
    set("BASE_CACHE_GB", serving.base_cache_gb);
    set("DELTA_GB", mode.fp4 ? std::string_view(serving.delta_gb) : "0");
  } else if (mode.fp4) {
    set("DELTA_GB", serving.delta_gb);
  }
  if (serving.geometry && serving.geometry->drafts != 0) {
    set("DRAFT", "1");
    set("NUM_LAYERS", fmt::format("{}", serving.geometry->layers + serving.geometry->drafts));
  }
  set("KS", serving.ks);
  return out;
}

std::string shell_lines(const Environment& environment) {
  std::string out;
  for (const auto& [name, value] : environment)
    out += fmt::format("export {}={}\n", name, shell_quoted(value));
  return out;
}

std::string docker_lines(const Environment& environment) {
  std::string out;
  for (const auto& [name, value] : environment) {
    if (value.find_first_of("\n\r") != value.npos)
      throw Error(ErrorCode::usage, name, "has a line break in its value, which an env file cannot say");
    out += fmt::format("{}={}\n", name, value);
  }
  return out;
}

}  // namespace planesmith
