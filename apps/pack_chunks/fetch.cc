#include "hub/fetch.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "common/output_flags.h"
#include "pack_chunks/commands.h"

namespace planesmith {
namespace {

struct FetchFlags {
  hub::FetchOptions options;
  OutputFlags output;
  bool json = false;
};

void declare(CLI::App& app, FetchFlags& flags) {
  app.add_option(
         "source", flags.options.source,
         "hf:OWNER/REPO[@REVISION], hf:datasets/OWNER/REPO[@REVISION], or the http(s) URL of a directory "
         "with a manifest")
      ->required();
  app.add_option(
      "name", flags.options.name,
      "Set or directory in it, possibly with a path in front (default: the only set, else everything)");
  app.add_option("-o,--out", flags.options.out, "Directory to unpack into")->required();
  app.add_option("-j,--connections", flags.options.connections, "Connections at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--parts", flags.options.parts,
                 "Directory to keep the parts in (default: parts are not kept)");
  app.add_option("--include", flags.options.include,
                 "Fetch only what matches this glob, and what is in it; may be repeated");
  app.add_option("--exclude", flags.options.exclude, "Leave out what matches this glob; may be repeated");
  app.add_flag("-f,--force", flags.options.force, "Replace files that are there with other contents");
  app.add_flag("-n,--dry-run", flags.options.dry_run, "Show what would be fetched; write nothing");
  add_output_flags(app, flags.output);
  app.add_flag("--json", flags.json, "Print the result as JSON");
}

void show(const hub::FetchResult& result, const FetchFlags& flags) {
  if (flags.json) {
    print_json({{"source", flags.options.source},
                {"kind", hub::name(result.kind)},
                {"name", result.set},
                {"out", flags.options.out},
                {"places", result.places},
                {"dry_run", flags.options.dry_run},
                {"files", result.files},
                {"content_bytes", result.bytes},
                {"files_kept", result.kept},
                {"parts", result.parts},
                {"fetched_bytes", result.fetch_bytes}});
    return;
  }
  std::string text;
  if (flags.options.dry_run) {
    text = "to fetch: " + exact_size(result.fetch_bytes);
    if (result.parts != 0) text += fmt::format(" in {} parts of {}", result.parts, printable(result.set));
    if (result.files != 0) text += fmt::format("; {} files, {}", result.files, exact_size(result.bytes));
    text += fmt::format("{}\n", result.kept == 0 ? "" : fmt::format(", {} there already", result.kept));
  } else {
    text = fmt::format("{} files, {} of content, {} fetched{}\n", result.files, exact_size(result.bytes),
                       exact_size(result.fetch_bytes),
                       result.kept == 0 ? "" : fmt::format(", {} there already", result.kept));
    for (const std::string& place : result.places) text += fmt::format("in   {}\n", printable(place));
  }
  print_result(text);
}

int run(Context& context, const FetchFlags& flags) {
  hub::FetchOptions options = flags.options;
  options.check_space = !flags.output.no_space_check;
  if (flags.output.group_shared) share_with_group(context);
  const hub::FetchResult result = hub::fetch(options, context);
  suggest_next(result.next);
  show(result, flags);
  return 0;
}

}  // namespace

void add_fetch(Subcommands& commands) {
  commands.add<FetchFlags>("fetch", "Fetch a set or files from a hub or web server, unpacked", declare, run);
}

}  // namespace planesmith
