#include "plan/pack_dirs.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/error.h"

namespace planesmith {

PackDirs::PackDirs(std::string directory) : of_all_(std::move(directory)) {}

PackDirs PackDirs::parse(const std::string& text, std::string_view option) {
  static const std::regex rank_start("(^|,)([0-9]{1,6})=");
  if (!std::regex_search(text, rank_start, std::regex_constants::match_continuous)) return PackDirs(text);
  PackDirs out;
  const std::sregex_iterator end;
  for (std::sregex_iterator at(text.begin(), text.end(), rank_start); at != end; ++at) {
    const auto from = static_cast<std::size_t>(at->position() + at->length());
    const auto next = std::next(at);
    const std::size_t to = next == end ? text.size() : static_cast<std::size_t>(next->position());
    const std::uint64_t rank = std::stoull((*at)[2]);
    if (from == to)
      throw Error(ErrorCode::usage, "", fmt::format("{}: rank {} is given no directory", option, rank));
    if (!out.of_rank_.emplace(rank, text.substr(from, to - from)).second)
      throw Error(ErrorCode::usage, "", fmt::format("{}: rank {} is given two directories", option, rank));
  }
  return out;
}

const std::string& PackDirs::of(std::uint64_t rank) const {
  if (!per_rank()) return of_all_;
  const auto found = of_rank_.find(rank);
  if (found == of_rank_.end())
    throw Error(ErrorCode::usage, "", fmt::format("no directory of packs is named for rank {}", rank));
  return found->second;
}

std::string PackDirs::text() const {
  std::string out = of_all_;
  for (const auto& [rank, directory] : of_rank_)
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", rank, directory);
  return out;
}

std::vector<std::string> PackDirs::all() const {
  if (!per_rank()) return of_all_.empty() ? std::vector<std::string>{} : std::vector{of_all_};
  std::vector<std::string> out;
  for (const auto& [rank, directory] : of_rank_)
    if (std::find(out.begin(), out.end(), directory) == out.end()) out.push_back(directory);
  return out;
}

}  // namespace planesmith
