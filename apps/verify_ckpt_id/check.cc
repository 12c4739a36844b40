// verify-ckpt-id check: would the engine boot from this?
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/identity.h"
#include "checkpoint/pin.h"
#include "common/flag_values.h"
#include "common/geometry_flags.h"
#include "store/place.h"
#include "store/probe.h"
#include "store/serving.h"
#include "upkeep/units.h"
#include "verify/boot_advice.h"
#include "verify/report.h"
#include "verify/sample.h"
#include "verify/source_check.h"
#include "verify_ckpt_id/commands.h"
#include "verify_ckpt_id/configuration.h"

namespace planesmith {
namespace {

struct CheckOptions {
  std::string planescache, store, checkpoint, rank = "all";
  GeometryFlags geometry;
  IdentityOptions identity;
  ConfigurationFlags configuration;
  std::optional<std::string> zero_mode, fp4, tiers;
  std::optional<std::uint64_t> world, drafts, sample, seed;
  bool all = false, content = false, json = false;
  std::string print_env;  // shell, docker; empty: not asked for
};

void declare(CLI::App& app, CheckOptions& options) {
  app.add_option("--planescache", options.planescache, "Root of a planes cache");
  app.add_option("--store", options.store, "Directory of packs; 0=DIR,1=DIR: one for each rank");
  CLI::Option* pin = app.add_option("--ckpt-id", options.identity.pin,
                                    "Identity that the server is pinned to (default: the only one found)");
  CLI::Option* served = app.add_option(
      "--served-path", options.identity.served_path,
      "Instead: the path that the server is started with; needs --checkpoint if it is a local directory");
  served->excludes(pin);
  app.add_option("--revision", options.identity.revision, "Revision that the server is started with")
      ->needs(served);
  CLI::Option* checkpoint = app.add_option("--checkpoint", options.checkpoint, "Directory of the checkpoint");
  app.add_option("--world", options.world, "Tensor-parallel world (default: the one found)")
      ->check(CLI::Range(std::uint64_t{1}, format::kMostWorld));
  add_rank_flag(app, options.rank, "One rank, or all");
  app.add_option("--zero-mode", options.zero_mode, "auto, sign or alt (default: the one found)")
      ->type_name("TEXT:{auto,sign,alt}");
  app.add_option("--fp4", options.fp4, "FP4 planes to check for (default: those found)")
      ->type_name("TEXT:{none,nibble,quintal}");
  app.add_option("--tiers", options.tiers,
                 "Packs to check for, separated by commas (default: those of the mode, else those found)")
      ->type_name(tiers_type());
  app.add_option("--drafts", options.drafts,
                 "DSpark drafter blocks served, as layers after the model's own (default: those found)")
      ->check(CLI::Range(std::uint64_t{0}, format::kMostDrafts));
  add_configuration_flags(app, options.configuration);
  add_geometry_flags(app, options.geometry);
  CLI::Option* sample =
      app.add_option("--sample", options.sample,
                     "Also convert this many experts again and compare the bytes (default: none)")
          ->needs(checkpoint);
  app.add_option("--seed", options.seed, "Seed of the sample (default: another one each time; it is printed)")
      ->needs(sample);
  app.add_flag("--content", options.content, "Also read everything and compare it with the manifests");
  app.add_flag("--all", options.all, "Convert all experts again and compare the bytes")
      ->needs(checkpoint)
      ->excludes(sample);
  CLI::Option* json = app.add_flag("--json", options.json, "Print one JSON document");
  app.add_flag("--print-env{shell}", options.print_env,
               "If it would boot, print only the environment to serve with: export lines for eval "
               "(--print-env or --print-env=shell), or an env file (--print-env=docker)")
      ->type_name("TEXT:{shell,docker}")
      ->excludes(json);
}

// Fills the request from a configuration of the engine. Error (usage): a flag contradicts it.
void take(const ReadConfiguration& configuration, BootRequest& request, Findings& findings) {
  const EngineSettings& settings = configuration.settings;
  const auto differs = [](const std::string& what) { throw Error(ErrorCode::usage, "", what); };
  if (!settings.ckpt_id.empty()) {
    if (request.ckpt_id && *request.ckpt_id != settings.ckpt_id)
      differs(fmt::format("--ckpt-id or --served-path says '{}', the configuration VLLM_MOE_W2_CKPT_ID={}",
                          *request.ckpt_id, settings.ckpt_id));
    request.ckpt_id = settings.ckpt_id;
  } else {
    const char* const text =
        "VLLM_MOE_W2_CKPT_ID is not set, so the engine computes an identity of its own from the files' times "
        "(--served-path with --checkpoint checks that one)";
    if (!request.ckpt_id && configuration.recipe.arguments.empty())
      findings.problems.push_back(text);
    else
      findings.warnings.push_back(text);
  }
  if (request.zero_mode && *request.zero_mode != settings.zero_mode)
    differs(fmt::format("--zero-mode says {}, the configuration {}", name(*request.zero_mode),
                        name(settings.zero_mode)));
  request.zero_mode = settings.zero_mode;
  if (request.mode && *request.mode != settings.mode())
    differs(fmt::format("--for says {}, the configuration results in mode {}", format::name(*request.mode),
                        format::name(settings.mode())));
  request.mode = settings.mode();
  request.split = settings.switches.split;
  const auto ranks = argument_value(configuration.recipe.arguments, {"--tensor-parallel-size", "-tp"});
  if (!request.world && !configuration.recipe.arguments.empty()) {
    // judge() reports any other value.
    request.world = ranks && !ranks->empty() && ranks->find_first_not_of("0123456789") == std::string::npos &&
                            ranks->size() <= 4 && *ranks != "0"
                        ? std::stoull(*ranks)
                        : 1;
  }
}

// Where to look for a directory of the configuration: a flag gives the host's path of what the engine sees in
// its container.
std::string place(Context& context, const std::string& flag, const std::string& told, const char* variable,
                  Findings& findings) {
  if (!flag.empty()) {
    if (told != flag && !told.empty())
      findings.notes.push_back(fmt::format("{}={}: looked for in {}", variable, told, flag));
    return flag;
  }
  if (!told.empty() && !exists(context.os, told))
    findings.warnings.push_back(fmt::format("{}={}: there is no such directory", variable, told));
  if (!told.empty() && !told.starts_with('/'))
    findings.warnings.push_back(
        fmt::format("{}={} is relative: it depends on where the server is started", variable, told));
  return told;
}

// Bytes of everything but routed experts and drafters.
std::uint64_t dense_bytes(const Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& [kind, left] : model.left_alone)
    if (kind != "MTP") bytes += left.bytes;
  return bytes;
}

BootRequest request_of(Context& context, const CheckOptions& options) {
  BootRequest request;
  if (!options.identity.by_content())
    request.ckpt_id = resolve_identity(context, options.identity, options.checkpoint).id;
  request.world = options.world;
  request.rank = parse_rank(options.rank);
  request.drafts = options.drafts;
  if (options.zero_mode) request.zero_mode = format::parse_zero_mode(*options.zero_mode);
  if (options.fp4) request.fp4 = format::parse_fp4_tier(*options.fp4);
  if (options.tiers) request.tiers = parse_tiers(*options.tiers);
  return request;
}

void say_lines(Context& context, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    context.progress.say(std::string(text.substr(0, end)));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

SampleRequest sample_of(const CheckOptions& options) {
  SampleRequest request;
  constexpr std::uint64_t kFew = 4;
  if (!options.all) request.count = options.sample.value_or(kFew);
  if (options.sample) request.seed = options.seed.value_or(std::random_device()());
  return request;
}

// Compares the caches and packs that the engine would open with their manifests.
std::vector<UnitReport> read_contents(Context& context, const BootVerdict& verdict) {
  std::vector<UnitReport> out;
  const auto look = [&](const std::string& path) {
    if (!exists(context.os, path)) return;
    for (const Unit& unit : find_units(context, path))
      out.push_back(verify_unit(context, unit, {.allow_extra = true}));
  };
  for (const CacheVerdict& cache : verdict.caches) look(cache.path);
  for (const PackVerdict& pack : verdict.packs) look(pack.path);
  return out;
}

// Checked first: files made from another checkpoint would boot and serve another model's experts.
int report_other_source(Context& context, const CheckOptions& options, const Boot& boot,
                        const SourceCheck& sources) {
  if (options.json)
    print_json({{"hit", false}, {"ckpt_id", boot.ckpt_id}, {"sources", to_json(sources)}});
  else if (!options.print_env.empty())
    say_lines(context, to_text(sources));
  else
    print_result(to_text(sources));
  return static_cast<int>(ErrorCode::difference);
}

void print_environment(Context& context, const CheckOptions& options, const BootVerdict& verdict,
                       const Store& store) {
  if (store.places.all().size() > 1 && verdict.boot.ranks.size() > 1)
    throw Error(ErrorCode::usage, "",
                "the engine has one VLLM_MOE_W2_STORE_DIR for all ranks of a machine, and here each has its "
                "own: put links to all packs and locks into one directory, or print what one rank needs with "
                "--rank; serve.sh mounts them together");
  if (const auto store_dir = verdict.environment.find("VLLM_MOE_W2_STORE_DIR");
      store_dir != verdict.environment.end() && stripped(store_dir->second) != store_dir->second)
    throw Error(ErrorCode::usage, store_dir->second,
                "ends with white space, which the engine strips from VLLM_MOE_W2_STORE_DIR: it would look in "
                "another directory; rename it, or give a link to it");
  for (const std::vector<std::string>* lines :
       {&verdict.findings.problems, &verdict.findings.warnings, &verdict.findings.notes})
    for (const std::string& line : *lines) context.progress.say(line);
  print_result(options.print_env == "docker" ? docker_lines(verdict.environment)
                                             : shell_lines(verdict.environment));
}

int run(Context& context, const CheckOptions& options) {
  if (!options.print_env.empty() && options.print_env != "shell" && options.print_env != "docker")
    throw Error(ErrorCode::usage, "",
                fmt::format("--print-env={}: choose shell or docker", options.print_env));
  Findings findings;
  const std::optional<ReadConfiguration> configuration =
      read_configuration(context, options.configuration, options.planescache, findings);
  BootRequest request = request_of(context, options);
  std::string root = options.planescache, directory = options.store;
  if (options.configuration.mode) request.mode = format::parse_mode(*options.configuration.mode);
  if (configuration) {
    take(*configuration, request, findings);
    const EngineSettings& settings = configuration->settings;
    root = place(context, configuration->recipe.names_cache ? "" : root, settings.planes_cache.value_or(""),
                 "VLLM_MOE_W2_PLANES_CACHE", findings);
    directory = place(context, directory, settings.store_dir, "VLLM_MOE_W2_STORE_DIR", findings);
  } else if (root.empty() && directory.empty()) {
    throw Error(ErrorCode::usage, "",
                "give --planescache, --store or both, or a configuration of the engine");
  }
  if (request.mode) fill_in(request, *request.mode, !directory.empty());

  // With a configuration, place() has already warned. A mode without packs needs no directory of packs.
  const bool packs = !request.tiers || !request.tiers->empty();
  if (!configuration) refuse_wrong_place(context.os, root, packs ? directory : "");
  const Store store = scan_store(
      context.os, root, options.store.empty() ? PackDirs(directory) : PackDirs::parse(directory, "--store"));
  for (const std::string& remark : remarks_on(store)) context.progress.warn(remark);
  Boot boot = complete(request, store);
  if (request.mode && !configuration && !root.empty()) {
    const format::Fp4Tier wanted = format::cache_fp4(*request.mode);
    if (boot.fp4 != wanted && !(boot.fp4 == format::Fp4Tier::nibble && wanted == format::Fp4Tier::none))
      findings.problems.push_back(fmt::format("mode {} reads a planes cache with FP4 planes {}, not {}",
                                              format::name(*request.mode), name(wanted), name(boot.fp4)));
  }
  Serve serve;
  serve.world = boot.world;
  serve.has_cache = !root.empty();
  serve.has_store = !directory.empty();
  if (configuration) serve.configuration = &*configuration;
  if (options.configuration.gpu_memory)
    serve.gpu_bytes = parse_size(*options.configuration.gpu_memory, "--gpu-memory");

  BootVerdict verdict;
  std::optional<SampleReport> sample;
  SourceCheck sources;
  std::string uncut;  // what to do where the configuration counts other layers than files are made for
  const auto probe_with = [&](std::optional<KnownModel> model) {
    if (configuration && model) {
      const std::uint64_t layers = model->geometry.layers;
      model = as_configured(std::move(*model), configuration->settings, findings);
      if (model->geometry.layers != layers)
        uncut = fmt::format(
            "remove VLLM_MOE_W2_NUM_LAYERS from the configuration: files are made for all {} layers", layers);
      boot.drafts = model->geometry.drafts;
    }
    verdict = probe(context.os, store, boot, model);
  };
  if (options.checkpoint.empty()) {
    sources = check_sources(store, boot, "");
    if (!sources.others.empty()) return report_other_source(context, options, boot, sources);
    std::optional<KnownModel> model = model_in(store, boot.ckpt_id);
    probe_with(model ? model : told_model(context.os, options.geometry));
  } else {
    const Checkpoint checkpoint = Checkpoint::open(context, options.checkpoint);
    Model model = find_experts(checkpoint, boot.drafts.value_or(0));
    if (!boot.drafts)
      if (const std::uint64_t drafts =
              drafts_there(store, boot, model_of_checkpoint(model, options.checkpoint));
          drafts != 0)
        model = find_experts(checkpoint, drafts);
    sources = check_sources(store, boot, source_fingerprint(context, checkpoint, model));
    if (!sources.others.empty()) return report_other_source(context, options, boot, sources);
    serve.dense_bytes = dense_bytes(model);
    probe_with(model_of_checkpoint(model, options.checkpoint));
    // If the source of something is not recorded, compare a few experts.
    if (options.sample || options.all || !sources.unknown.empty()) {
      sample = compare_with_checkpoint(context, store, verdict, checkpoint, model, sample_of(options));
      sample->other_checkpoint = !sources.unknown.empty() && sample->differing == sample->experts;
    }
  }
  if (verdict.model) {
    say_profile(context, verdict.model->geometry);
    serve.model = &*verdict.model;
  }
  if (request.mode || serve.gpu_bytes) {
    serve.mode = *verdict.boot.mode;
    judge(serve, findings);
  }
  verdict.findings = std::move(findings);
  std::vector<UnitReport> contents;
  if (options.content) contents = read_contents(context, verdict);
  const bool good =
      verdict.hit() && (!sample || sample->differences.empty()) &&
      std::all_of(contents.begin(), contents.end(), [](const UnitReport& one) { return one.ok(); });
  std::vector<std::string> to_do;
  if (!verdict.hit() && !uncut.empty())
    to_do = {uncut};
  else if (!verdict.hit())
    to_do = boot_advice(context.os, verdict, store, options.checkpoint);
  if (good)
    verdict.environment = environment_of(
        verdict, store, configuration ? configuration->environment : Environment{}, serve.gpu_bytes);
  if (good && !configuration && options.print_env == "shell")
    find_left_over(of_this_process(), verdict.environment, verdict.findings);

  if (options.json) {
    Json out = to_json(verdict);
    if (sample) out["content"] = to_json(*sample);
    out["sources"] = to_json(sources);
    for (const std::string& line : to_do) out["to_do"].push_back(printable(line));
    out["looked_at"] = options.content ? "names, sizes and contents" : "names and sizes";
    if (options.content) out["contents"] = Json::array();
    for (const UnitReport& one : contents) out["contents"].push_back(to_json(one, {}));
    print_json(std::move(out));
  } else if (!options.print_env.empty() && good) {
    print_environment(context, options, verdict, store);
  } else {
    std::string text = to_text(verdict) + (sample ? to_text(*sample) : "");
    for (const UnitReport& one : contents) text += to_text(one, {});
    for (const std::string& line : to_do) text += fmt::format("to do: {}\n", printable(line));
    text += options.content ? "looked at: names, sizes and contents\n"
            : sample        ? "looked at: names and sizes; of contents, the experts that were compared "
                              "(--content reads all)\n"
                            : "looked at: names and sizes; contents not read (--content reads them)\n";
    if (!options.print_env.empty())
      say_lines(context, text);
    else
      print_result(text);
  }
  return good ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_check(Subcommands& commands) {
  commands.add<CheckOptions>("check", "Tell whether the engine would boot from a planes cache and packs",
                             declare, run);
}

}  // namespace planesmith
