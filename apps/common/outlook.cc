#include "common/outlook.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "common/progress_line.h"

namespace planesmith {
namespace {

// Reading and writing overlap, so the slower one counts.
double seconds_for(const Outlook& outlook, const DiskRates& rates) {
  const auto of = [](std::uint64_t bytes, double rate) {
    return rate > 0 ? static_cast<double>(bytes) / rate : 0;
  };
  return std::max(of(outlook.to_read, rates.read), of(outlook.to_write, rates.write));
}

std::string rate_text(double rate) {
  return short_size(static_cast<std::uint64_t>(rate)) + "/s";
}

}  // namespace

std::string outlook_text(const Context& context, const DryRun& run) {
  const Outlook& outlook = run.outlook;
  std::string out = run.identity.empty()
                        ? std::string(
                              "identity     content id: every byte is hashed first, unless its digest is "
                              "remembered\n")
                        : fmt::format("identity     {}\n", printable(run.identity));
  for (const std::string& path : run.directories)
    out +=
        fmt::format("directory    {}{}\n", printable(path), exists(context.os, path) ? "" : ", to be made");
  for (const Outlook::FileSystem& system : outlook.file_systems)
    out += fmt::format("space        {} needed, {} free in {}\n", short_size(system.needed),
                       short_size(system.free), printable(system.directory));
  out += fmt::format("remaining    {} layers, {} finished before; {} to read, {} to write\n",
                     outlook.layers_to_make, outlook.layers_finished, exact_size(outlook.to_read),
                     exact_size(outlook.to_write));
  if (run.rates)
    out += fmt::format("estimate     {}, reading {}, writing {}; conversion and hashing not counted\n",
                       clock_text(seconds_for(outlook, *run.rates)), rate_text(run.rates->read),
                       rate_text(run.rates->write));
  return out;
}

Json outlook_json(const DryRun& run) {
  const Outlook& outlook = run.outlook;
  Json systems = Json::array();
  for (const Outlook::FileSystem& system : outlook.file_systems)
    systems.push_back(
        {{"directory", system.directory}, {"bytes_needed", system.needed}, {"bytes_free", system.free}});
  Json out = {{"file_systems", systems},
              {"layers_finished", outlook.layers_finished},
              {"layers_to_make", outlook.layers_to_make},
              {"bytes_to_read", outlook.to_read},
              {"bytes_to_write", outlook.to_write}};
  if (!run.identity.empty()) out["ckpt_id"] = run.identity;
  if (run.rates)
    out["estimate"] = {{"seconds", seconds_for(outlook, *run.rates)},
                       {"bytes_per_second_read", run.rates->read},
                       {"bytes_per_second_written", run.rates->write}};
  return out;
}

}  // namespace planesmith
