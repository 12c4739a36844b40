#include "pipeline/from_planescache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/size.h"
#include "format/planes.h"
#include "manifest/manifest.h"
#include "pipeline/sinks.h"
#include "sink/cache_folder.h"
#include "sink/pack_sink.h"

namespace planesmith {
namespace {

using format::Section;
using format::Tier;

// A rank's cache folder with its manifest.
struct Source {
  std::string folder;
  Manifest manifest;
  format::RankShape shape;
  std::vector<std::uint64_t> layers;  // layer indices; a layer's key is its position
};

// Where a section of a pack comes from.
struct Origin {
  Section made;              // the section as the pack holds it
  std::string_view part;     // the cache's part that it is, or is derived from
  Section stored;            // the section that part holds
  bool derived() const { return made != stored; }
};

std::vector<CacheFolder> matching_folders(const Context& context, const FromCacheRequest& request) {
  std::vector<CacheFolder> found;
  std::set<std::string> identities;
  for (CacheFolder& folder : find_cache_folders(context.os, request.cache_root)) {
    const format::CacheMeta& meta = folder.meta;
    if (meta.world != request.world || meta.zero_mode != request.zero_mode) continue;
    if (request.ckpt_id && meta.ckpt_id != *request.ckpt_id) continue;
    if (request.rank && meta.rank != *request.rank) continue;
    identities.insert(meta.ckpt_id);
    found.push_back(std::move(folder));
  }
  if (found.empty())
    throw Error(request.cache_root, fmt::format("no planes cache for world {}, zero mode {}{} is here", request.world,
                                                name(request.zero_mode), request.ckpt_id ? " and this identity" : ""));
  if (identities.size() > 1) {
    std::string list;
    for (const std::string& id : identities) list += (list.empty() ? "" : ", ") + id;
    throw Error(ErrorCode::usage, request.cache_root, "holds several identities; choose one with --ckpt-id: " + list);
  }
  return found;
}

// One folder per rank; where a rank has a split and a nibble cache, the one that more tiers can be made of.
std::vector<Source> sources(const Context& context, const FromCacheRequest& request, std::string& ckpt_id) {
  std::vector<CacheFolder> folders = matching_folders(context, request);
  ckpt_id = folders.front().meta.ckpt_id;
  std::stable_sort(folders.begin(), folders.end(), [](const CacheFolder& a, const CacheFolder& b) {
    return std::pair(a.meta.rank, a.meta.split) < std::pair(b.meta.rank, b.meta.split);
  });
  std::vector<Source> out;
  std::set<std::uint64_t> ranks;
  for (const CacheFolder& folder : folders) {
    if (!ranks.insert(folder.meta.rank).second) continue;
    const std::string path = join(folder.path, "manifest.json");
    if (!exists(context.os, path))
      throw Error(folder.path, "has no manifest.json, so its content cannot be verified; run build-planescache on it again");
    Source source{folder.path, parse_manifest(read_text(context.os, path, 1u << 30), path), {}, {}};
    if (!source.manifest.facts || source.manifest.kind != ManifestKind::planescache ||
        source.manifest.facts->ckpt_id != folder.meta.ckpt_id)
      throw Error(path, "is not the manifest of this planes cache");
    source.shape = format::rank_shape(source.manifest.facts->geometry, request.world);
    source.layers = source.manifest.facts->layers;
    for (const std::uint64_t layer : request.layers.value_or(std::vector<std::uint64_t>{}))
      if (!std::binary_search(source.layers.begin(), source.layers.end(), layer))
        throw Error(ErrorCode::usage, folder.path,
                    fmt::format("has no layer {}; the layers it has are {} to {}", layer,
                                source.layers.front(), source.layers.back()));
    out.push_back(std::move(source));
  }
  const std::uint64_t wanted = request.rank ? 1 : request.world;
  if (out.size() != wanted)
    throw Error(request.cache_root, fmt::format("has {} of {} ranks of world {}", out.size(), wanted, request.world));
  return out;
}

bool has_part(const Source& source, std::string_view part) {
  const std::string file = format::part_file(source.layers.front(), part);
  return std::any_of(source.manifest.files.begin(), source.manifest.files.end(),
                     [&](const FileEntry& entry) { return entry.path == file; });
}

std::vector<Origin> origins(const Source& source, Tier tier) {
  const bool quintal = source.manifest.facts->fp4 == format::Fp4Tier::quintal;
  std::vector<Origin> out;
  for (const Section section : format::slot_sections(tier)) {
    Origin origin{section, "", section};
    switch (section) {
      case Section::planes13: origin.part = "planes13"; break;
      case Section::sc13: origin.part = "sc13"; break;
      case Section::planes2: origin.part = "planes2"; break;
      case Section::sc2: origin.part = "sc2"; break;
      case Section::fp13: origin.part = "fp13"; break;
      case Section::fp2: origin.part = "fp2"; break;
      case Section::fpq13: origin = {section, "fp13", quintal ? section : Section::fp13}; break;
      case Section::fpq2: origin = {section, "fp2", quintal ? section : Section::fp2}; break;
    }
    const bool nibbles_wanted = origin.stored == Section::fp13 || origin.stored == Section::fp2;
    if (!has_part(source, origin.part) || (quintal && nibbles_wanted))
      throw Error(source.folder, fmt::format("the {} pack needs {} planes, which this cache does not have; build it "
                                             "from the checkpoint",
                                             name(tier), quintal ? "FP4 nibble" : "FP4"));
    out.push_back(origin);
  }
  return out;
}

// One layer of one pack on its way.
struct Job {
  const Source* source;
  PackSink* sink;
  std::vector<Origin> origins;
  std::uint64_t key;
  std::unique_ptr<PackLayer> output;
  std::vector<File> files;                     // of each origin
  std::vector<const FileEntry*> entries;       // of each origin
  std::mutex mutex;
  bool opened = false;
  std::atomic<std::uint64_t> left;
};

class Assembly {
 public:
  Assembly(const Context& context, const FromCacheRequest& request, const Kernels& kernels)
      : context_(context), request_(request), kernels_(kernels), share_(request.reflink != Reflink::never) {}

  FromCacheReport run() {
    FromCacheReport report;
    sources_ = sources(context_, request_, report.ckpt_id);
    for (const Source& source : sources_)
      for (const Tier tier : request_.tiers) add_pack(source, tier, report);
    to_write_ = report.to_write;
    check_space();
    if (request_.dry_run) return report;
    for (const std::unique_ptr<PackSink>& sink : sinks_) sink->prepare();
    std::uint64_t total = 0;
    for (const std::unique_ptr<Job>& job : jobs_) total += job->left * job->sink->spec().pack.slot_bytes;
    if (total != 0) context_.progress.begin("assemble packs", total);
    const std::uint64_t experts = sources_.front().manifest.facts->geometry.experts;
    const int workers = workers_within_memory();
    buffers_.resize(static_cast<std::size_t>(workers));
    parallel_for(jobs_.size() * experts, workers, [&](std::size_t i, int worker) {
      context_.check_stop();
      Job& job = *jobs_[i / experts];
      if (open(job)) write_expert(job, i % experts, buffers_[static_cast<std::size_t>(worker)]);
      if (job.left.fetch_sub(1) == 1) {
        if (job.output) job.output->commit();
        (job.output ? converted_ : elsewhere_) += 1;
        job.output.reset();
        job.files.clear();
      }
      context_.progress.advance(job.sink->spec().pack.slot_bytes);
    });
    context_.progress.end();
    report.converted = converted_;
    report.elsewhere = elsewhere_;
    report.shared = shared_;
    report.copied = copied_;
    report.complete = true;
    for (const std::unique_ptr<PackSink>& sink : sinks_) report.complete &= sink->seal();
    return report;
  }

 private:
  struct Buffers {
    std::vector<std::uint8_t> section, derived, codes;
  };

  void add_pack(const Source& source, Tier tier, FromCacheReport& report) {
    const CacheFacts& facts = *source.manifest.facts;
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < source.layers.size(); ++key) keys.push_back(key);
    sinks_.push_back(std::make_unique<PackSink>(
        context_,
        PackSinkSpec{request_.store,
                     format::pack_spec(tier, facts.geometry, source.shape, facts.ckpt_id, facts.zero_mode), facts.rank,
                     facts.world, facts.geometry, keys},
        request_.trust));
    PackSink& sink = *sinks_.back();
    report.outputs.push_back(sink.describe());
    std::vector<const SparseLayer*> unfinished;
    std::vector<SparseLayer> layers(source.layers.size());
    for (const std::uint64_t key : keys) {
      layers[key].index = source.layers[key];
      layers[key].key = key;
      if (request_.layers && !std::binary_search(request_.layers->begin(), request_.layers->end(), layers[key].index))
        continue;
      if (sink.missing(layers[key]) == SectionSet{}) {
        ++report.finished;
        continue;
      }
      unfinished.push_back(&layers[key]);
      auto job = std::make_unique<Job>();
      job->source = &source;
      job->sink = &sink;
      job->origins = origins(source, tier);
      job->key = key;
      job->left = facts.geometry.experts;
      jobs_.push_back(std::move(job));
    }
    report.to_write += sink.space_needed(unfinished);
  }

  // Packs made of shared blocks take next to nothing; whether blocks can be shared shows only when it is tried.
  void check_space() const {
    const std::string folder = writable_base(context_, request_.store);
    const std::uint64_t available = free_space(context_.os, folder);
    if (!share_ && to_write_ > available)
      throw Error(folder, fmt::format("not enough space: {} needed, {} free", exact_size(to_write_), exact_size(available)));
  }

  int workers_within_memory() const {
    std::uint64_t bytes = 0;  // largest section, what is derived from it, and its codes
    for (int s = 0; s < format::kSections; ++s)
      bytes = std::max(bytes, 2 * section_bytes(static_cast<Section>(s), sources_.front().shape));
    if (context_.memory < bytes)
      throw Error(ErrorCode::usage, "", fmt::format("--memory {} is too small here; the smallest that works is {}",
                                                    context_.memory, bytes));
    return static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(context_.threads), context_.memory / bytes));
  }

  bool open(Job& job) {
    const std::lock_guard<std::mutex> lock(job.mutex);
    if (job.opened) return job.output != nullptr;
    job.opened = true;
    job.output = job.sink->open_pack_layer(job.key);
    if (!job.output) {
      context_.progress.say(fmt::format("layer {}: another run has it in {}; left to that run",
                                        job.source->layers[job.key], job.sink->describe()));
      return false;
    }
    for (const Origin& origin : job.origins) {
      const std::string file = format::part_file(job.source->layers[job.key], origin.part);
      job.files.push_back(File::open_read(context_.os, join(job.source->folder, file)));
      for (const FileEntry& entry : job.source->manifest.files)
        if (entry.path == file) job.entries.push_back(&entry);
      if (job.entries.size() != job.files.size() || job.files.back().size() != job.entries.back()->size)
        throw Error(job.files.back().path(), "is not the file that the manifest lists; run build-planescache again");
    }
    return true;
  }

  void write_expert(Job& job, std::uint64_t expert, Buffers& buffers) {
    for (std::size_t i = 0; i < job.origins.size(); ++i) {
      const Origin& origin = job.origins[i];
      const std::uint64_t bytes = section_bytes(origin.stored, job.source->shape), offset = expert * bytes;
      const Xxh3& known = job.entries[i]->blocks[expert];
      const bool can_share = share_ && !origin.derived();
      if (!can_share || request_.trust == Trust::content) read_verified(job, i, expert, known, buffers.section);
      if (can_share && share(job, i, expert, offset, known, buffers.section)) {
        shared_ += bytes;
        continue;
      }
      const std::vector<std::uint8_t>* made = &buffers.section;
      Xxh3 digest = known;
      if (origin.derived()) {
        derive(job, origin, expert, buffers);
        made = &buffers.derived;
        digest = Xxh3::of(buffers.derived);
      }
      job.output->write(expert, origin.made, 0, *made);
      job.output->finish(expert, origin.made, digest);
      copied_ += made->size();
    }
  }

  // False where it has to be copied, which is read then.
  bool share(Job& job, std::size_t i, std::uint64_t expert, std::uint64_t offset, const Xxh3& known,
             std::vector<std::uint8_t>& section) {
    if (job.output->share(expert, job.origins[i].made, job.files[i], offset, known)) return true;
    if (request_.reflink == Reflink::always)
      throw Error(job.sink->describe(), fmt::format("the file system cannot share blocks with {}; use --reflink auto",
                                                    job.files[i].path()));
    if (share_.exchange(false)) check_space();
    read_verified(job, i, expert, known, section);
    return false;
  }

  void read_verified(const Job& job, std::size_t i, std::uint64_t expert, const Xxh3& known,
                     std::vector<std::uint8_t>& section) const {
    section.resize(section_bytes(job.origins[i].stored, job.source->shape));
    job.files[i].read(section, expert * section.size());
    if (Xxh3::of(section) != known)
      throw Error(ErrorCode::difference, job.files[i].path(),
                  fmt::format("expert {} is not what the manifest says; rebuild layer {} with build-planescache --recheck",
                              expert, job.source->layers[job.key]))
          .at(expert * section.size());
  }

  // Quintal planes out of nibble planes. The 2-bit codes fall out on the way and must be those of the cache.
  void derive(const Job& job, const Origin& origin, std::uint64_t expert, Buffers& buffers) const {
    const bool first = origin.made == Section::fpq13;
    const std::uint64_t tiles = buffers.section.size() / format::kNibbleTile;
    buffers.derived.resize(tiles * format::kQuintalTile);
    buffers.codes.resize(tiles * format::kCodeTile);
    kernels_.from_nibbles(buffers.section.data(), tiles, buffers.codes.data(), buffers.derived.data());
    const std::string planes = format::part_file(job.source->layers[job.key], first ? "planes13" : "planes2");
    for (const FileEntry& entry : job.source->manifest.files)
      if (entry.path == planes && entry.blocks[expert] != Xxh3::of(buffers.codes))
        throw Error(ErrorCode::difference, join(job.source->folder, planes),
                    fmt::format("expert {}: the 2-bit planes are not those of the FP4 planes", expert));
  }

  const Context& context_;
  const FromCacheRequest& request_;
  const Kernels& kernels_;
  std::vector<Source> sources_;
  std::vector<std::unique_ptr<PackSink>> sinks_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Buffers> buffers_;
  std::atomic<bool> share_;
  std::uint64_t to_write_ = 0;  // bytes, where nothing is shared
  std::atomic<std::uint64_t> shared_{0}, copied_{0}, converted_{0}, elsewhere_{0};
};

}  // namespace

Reflink parse_reflink(std::string_view text) {
  if (text == "auto") return Reflink::automatic;
  if (text == "always") return Reflink::always;
  if (text == "never") return Reflink::never;
  throw Error(ErrorCode::usage, "", fmt::format("--reflink: '{}' is none of auto, always, never", text));
}

FromCacheReport packs_from_planescache(const Context& context, const FromCacheRequest& request,
                                       const Kernels& kernels) {
  return Assembly(context, request, kernels).run();
}

}  // namespace planesmith
