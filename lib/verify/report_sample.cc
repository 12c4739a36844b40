// The result of comparing with the checkpoint, as text and JSON.
#include <fmt/format.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "verify/report.h"

namespace planesmith {
namespace {

std::string place_text(const ContentDifference& difference) {
  if (difference.tensor.empty()) return "padding after the slot";
  return fmt::format("tensor '{}', row {}, column {}", printable(difference.tensor), difference.row,
                     difference.col);
}

}  // namespace

std::string to_text(const SampleReport& report) {
  std::string text;
  for (const ContentDifference& difference : report.differences) {
    text += fmt::format("DIFFERS  {}, byte {}: layer {}, expert {}, rank {}, {}: {}: found {}, expected {}\n",
                        printable(difference.path), difference.offset, difference.layer, difference.expert,
                        difference.rank, difference.section, place_text(difference), difference.found,
                        difference.expected);
    if (!report.other_checkpoint) text += fmt::format("  repair: {}\n", printable(difference.repair));
  }
  text += fmt::format("{} experts ({}) compared with the checkpoint (seed {}), {}\n", report.experts,
                      exact_size(report.bytes), report.seed,
                      report.differences.empty()
                          ? "all equal"
                          : fmt::format("{} layers of files differ", report.differences.size()));
  if (report.other_checkpoint)
    text += fmt::format(
        "this cache was made from another checkpoint: every expert that was looked at differs, and nothing "
        "says what it was made of; there is nothing to repair\n");
  return text;
}

Json to_json(const SampleReport& report) {
  Json out = {{"experts", report.experts},
              {"bytes", report.bytes},
              {"seed", report.seed},
              {"experts_differing", report.differing},
              {"other_checkpoint", report.other_checkpoint},
              {"differences", Json::array()}};
  for (const ContentDifference& difference : report.differences) {
    Json one = {{"file", printable(difference.path)},
                {"offset", difference.offset},
                {"layer", difference.layer},
                {"expert", difference.expert},
                {"rank", difference.rank},
                {"section", difference.section},
                {"found", difference.found},
                {"expected", difference.expected}};
    if (!report.other_checkpoint) one["repair"] = printable(difference.repair);
    if (!difference.tensor.empty()) {
      one["tensor"] = printable(difference.tensor);
      one["row"] = difference.row;
      one["column"] = difference.col;
    }
    out["differences"].push_back(std::move(one));
  }
  return out;
}

}  // namespace planesmith
