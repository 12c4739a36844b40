#include "audit/audit.h"

#include <fmt/format.h>

#include <algorithm>

#include "audit/checks.h"
#include "base/error.h"
#include "base/text.h"

namespace planesmith {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "";
}

bool AuditReport::failed() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
}

namespace {

// Drops findings that only follow from shards that could not be read.
void drop_consequences(Findings& findings) {
  constexpr std::string_view kCauses[] = {"shards.permission", "shards.unreadable", "shards.missing",
                                          "shards.lfs-pointer", "shards.none"};
  constexpr std::string_view kConsequences[] = {"experts.incomplete",
                                                "experts.refused",
                                                "experts.scale-missing",
                                                "index.absent",
                                                "profile.geometry",
                                                "profile.unknown-geometry",
                                                "mtp.lost",
                                                "mtp.count",
                                                "recipe.ignore-unmatched",
                                                "recipe.group-unmatched"};
  const auto among = [](const auto& codes) {
    return [&codes](const Finding& finding) {
      return std::find(std::begin(codes), std::end(codes), finding.code) != std::end(codes);
    };
  };
  if (std::any_of(findings.begin(), findings.end(), among(kCauses)))
    std::erase_if(findings, among(kConsequences));
}

}  // namespace

AuditReport audit(const Context& context, const AuditRequest& request) {
  AuditReport report;
  const Inventory inventory = take_inventory(context, request.checkpoint, report.findings);
  report.tensors = inventory.tensors.size();
  report.shards = inventory.shards.size();
  const std::optional<Experts> experts = check_experts(context, inventory, request.world, report.findings);
  check_contents(context, inventory, report.findings);
  check_profile(context, inventory, experts, request.profile, report.findings);
  check_recipe(inventory, report.findings);
  check_drafters(inventory, report.findings);
  drop_consequences(report.findings);
  if (!request.against_cache.empty())
    check_cache(context, request.checkpoint, request.against_cache, report.findings);
  check_files(context, inventory, request.against.value_or(""), report.findings);
  if (request.against) {
    Findings of_source;  // the source's own faults are not this checkpoint's
    const Inventory source = take_inventory(context, *request.against, of_source);
    if (source.tensors.empty()) throw Error(*request.against, "holds no readable tensors to compare with");
    report.compared = check_against(context, inventory, source, report.findings);
  }
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return report;
}

std::string to_text(const AuditReport& report) {
  std::string out;
  std::array<int, 3> counts{};
  for (const Finding& finding : report.findings) {
    ++counts[static_cast<std::size_t>(finding.severity)];
    out += fmt::format("{:<8} {}: {}\n", name(finding.severity), finding.code, printable(finding.what));
    if (finding.severity != Severity::note)
      out +=
          fmt::format("         why  {}\n         fix  {}\n", printable(finding.why), printable(finding.fix));
  }
  if (report.compared != 0)
    out += fmt::format("{} tensors besides the experts' weights equal the source's\n", report.compared);
  out += fmt::format("{} shards, {} tensors: {} errors, {} warnings\n", report.shards, report.tensors,
                     counts[2], counts[1]);
  return out;
}

Json to_json(const AuditReport& report) {
  Json findings = Json::array();
  for (const Finding& f : report.findings)
    findings.push_back(
        {{"code", f.code}, {"severity", name(f.severity)}, {"what", f.what}, {"why", f.why}, {"fix", f.fix}});
  return {{"findings", findings},
          {"shards", report.shards},
          {"tensors", report.tensors},
          {"tensors_equal_to_source", report.compared},
          {"failed", report.failed()}};
}

}  // namespace planesmith
