#include "pipeline/from_planescache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>

#include "base/budget.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/space.h"
#include "base/text.h"
#include "pipeline/cache_source.h"
#include "pipeline/section_reader.h"
#include "pipeline/sinks.h"
#include "plan/describe.h"
#include "sink/pack_sink.h"

namespace planesmith {
namespace {

using format::Section;

// One layer of one pack in progress.
struct Job {
  const CacheSource* source;
  PackSink* sink;
  std::size_t pack;  // number of the sink
  const std::vector<Origin>* origins;
  std::uint64_t key;
  std::unique_ptr<PackLayer> output;
  std::vector<File> files;                        // of each origin
  std::vector<struct stat> stats;                 // the same by name, when they were opened
  std::vector<const std::vector<Xxh3>*> digests;  // of each origin; null without a manifest
  std::mutex mutex;                               // guards opening
  bool opened = false, elsewhere = false;
  std::exception_ptr failure;
  std::atomic<std::uint64_t> left;
};

void ignore(std::uint64_t, ConstBytes) {}

class Assembly {
 public:
  Assembly(const Context& context, const FromCacheRequest& request, const Kernels& kernels)
      : context_(context), request_(request), kernels_(kernels), share_(request.reflink != Reflink::never) {}

  FromCacheReport run() {
    FromCacheReport report;
    sources_ = cache_sources(context_, request_);
    report.ckpt_id = sources_.front().facts.ckpt_id;
    for (const CacheSource& source : sources_) {
      if (!source.manifest) report.without_manifest.push_back(source.directory);
      for (std::size_t tier = 0; tier < request_.tiers.size(); ++tier) add_pack(source, tier, report);
    }
    for (std::size_t tier = 0; tier < request_.tiers.size(); ++tier)
      report.written.push_back(written_packs(sinks_[tier]->spec().pack, sources_.size(),
                                             request_.layers.value_or(sources_.front().facts.layers).size()));
    report.peak_memory = static_cast<std::uint64_t>(workers_within_limits()) * SectionReader::kMemory;
    report.outlook.layers_finished = report.finished;
    report.outlook.layers_to_make = jobs_.size();
    for (const auto& [device, system] : systems_) {
      report.outlook.to_write += system.needed;
      report.outlook.file_systems.push_back(system);
    }
    for (const std::string& remark : report.outlook.remarks) context_.progress.warn(remark);
    check_space();
    if (request_.dry_run) return report;
    for (const std::unique_ptr<PackSink>& sink : sinks_) sink->prepare();
    std::uint64_t total = 0;
    for (const std::unique_ptr<Job>& job : jobs_) total += job->left * job->sink->spec().pack.slot_bytes;
    if (total != 0) context_.progress.begin("assemble packs", total);
    const std::uint64_t experts = sources_.front().facts.geometry.experts;
    const int workers = workers_within_limits();
    std::vector<SectionReader> readers;
    for (int i = 0; i < workers; ++i) readers.emplace_back(kernels_);
    // A lane for each pack, since all of its layers are in one file.
    std::vector<std::vector<Job*>> packs(sinks_.size());
    for (const std::unique_ptr<Job>& job : jobs_) packs[job->pack].push_back(job.get());
    std::vector<std::size_t> lanes;
    for (const std::vector<Job*>& pack : packs) lanes.push_back(pack.size() * experts);
    parallel_lanes(lanes, workers, lanes.size(), [&](std::size_t pack, std::size_t i, int worker) {
      context_.check_stop();
      Job& job = *packs[pack][i / experts];
      if (open(job)) write_expert(job, i % experts, readers[static_cast<std::size_t>(worker)]);
      if (job.left.fetch_sub(1) == 1) {
        if (job.output) refuse_changed(job);
        if (job.output) job.output->commit();
        if (job.output) ++converted_;
        job.elsewhere = !job.output;
        job.output.reset();
        job.files.clear();
        job.stats.clear();
      }
      context_.progress.advance(job.sink->spec().pack.slot_bytes);
    });
    context_.progress.end();
    report.converted = converted_;
    // Layers that the other runs have finished meanwhile do not count.
    for (const std::unique_ptr<Job>& job : jobs_)
      if (job->elsewhere && !job->sink->has(job->key)) ++report.elsewhere;
    report.shared = shared_;
    report.copied = copied_;
    report.complete = true;
    for (const std::unique_ptr<PackSink>& sink : sinks_) report.complete &= sink->seal();
    return report;
  }

 private:
  // tier: position in the request.
  void add_pack(const CacheSource& source, std::size_t tier, FromCacheReport& report) {
    const CacheFacts& facts = source.facts;
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < facts.layers.size(); ++key) keys.push_back(key);
    sinks_.push_back(std::make_unique<PackSink>(
        context_,
        PackSinkSpec{request_.store.of(facts.rank),
                     format::pack_spec(request_.tiers[tier], facts.geometry, source.shape, facts.ckpt_id,
                                       facts.zero_mode),
                     facts.rank, facts.world, facts.geometry, keys, facts.id_by_download, facts.source,
                     facts.family, source.manifest.has_value()},
        request_.trust));
    PackSink& sink = *sinks_.back();
    sink.refuse_other_source();
    report.outputs.push_back(sink.describe());
    std::vector<const SparseLayer*> unfinished;
    std::vector<SparseLayer> layers(facts.layers.size());
    for (const std::uint64_t key : keys) {
      layers[key].index = facts.layers[key];
      layers[key].key = key;
      if (request_.layers &&
          !std::binary_search(request_.layers->begin(), request_.layers->end(), layers[key].index))
        continue;
      if (sink.missing(layers[key]) == SectionSet{}) {
        ++report.finished;
        continue;
      }
      check_parts(context_, source, source.origins[tier], layers[key].index);
      unfinished.push_back(&layers[key]);
      for (const Origin& origin : source.origins[tier]) {
        report.read_from.push_back(join(source.directory, format::part_file(layers[key].index, origin.part)));
        report.outlook.to_read += facts.geometry.experts * section_bytes(origin.stored, source.shape);
      }
      auto job = std::make_unique<Job>();
      job->source = &source;
      job->sink = &sink;
      job->pack = sinks_.size() - 1;
      job->origins = &source.origins[tier];
      job->key = key;
      job->left = facts.geometry.experts;
      jobs_.push_back(std::move(job));
    }
    if (Sink::Standing standing = sink.standing(unfinished); !standing.remark.empty())
      report.outlook.remarks.push_back(std::move(standing.remark));
    const std::string base = writable_base(context_, parent_of(sink.describe()));
    Outlook::FileSystem& system = systems_[status(context_.os, base).st_dev];
    system.directory = base;
    system.free = known_free_space(context_.os, base).value_or(0);
    system.needed += sink.space_needed(unfinished, 1);
  }

  // Packs of shared blocks take almost no space, and only an attempt shows whether blocks can be shared.
  void check_space() const {
    if (share_ || !request_.check_space) return;
    for (const auto& [device, system] : systems_) require_space(context_.os, system.directory, system.needed);
  }

  int workers_within_limits() const {
    // Files of a worker alone on its layer: the pack, its lock, up to six parts, and those of a commit.
    constexpr std::uint64_t kFiles = 12;
    const std::uint64_t by_files = std::max<std::uint64_t>(open_files_left() / kFiles, 1);
    const auto threads = static_cast<int>(std::min<std::uint64_t>(by_files, 1 << 16));
    return workers_within(context_.memory, 0, SectionReader::kMemory, std::min(context_.threads, threads));
  }

  // Opens the layer once; false: another run has it.
  // If opening fails, threads that waited for it get the same error.
  bool open(Job& job) {
    const std::lock_guard<std::mutex> lock(job.mutex);
    if (job.failure) std::rethrow_exception(job.failure);
    if (job.opened) return job.output != nullptr;
    try {
      job.output = job.sink->open_pack_layer(job.key);
      if (job.output) open_files(job);
    } catch (...) {
      job.failure = std::current_exception();
      throw;
    }
    job.opened = true;
    if (!job.output)
      context_.progress.say(fmt::format("layer {}: another run has it in {}; left to that run",
                                        job.source->facts.layers[job.key], job.sink->describe()));
    return job.output != nullptr;
  }

  void open_files(Job& job) const {
    for (const Origin& origin : *job.origins) {
      const std::string file = format::part_file(job.source->facts.layers[job.key], origin.part);
      const std::string path = join(job.source->directory, file);
      job.stats.push_back(status(context_.os, path));
      job.files.push_back(File::open_read(context_.os, path));
      job.digests.push_back(job.source->known(file));
    }
  }

  // A layer is made of the parts of one build.
  void refuse_changed(const Job& job) const {
    for (std::size_t i = 0; i < job.files.size(); ++i)
      if (const std::string& path = job.files[i].path();
          !exists(context_.os, path) || !unchanged(job.stats[i], status(context_.os, path)))
        throw Error(
            path,
            "changed since it was opened (size, time or inode differ); leave the cache alone while packs "
            "are made of it, and run this again");
  }

  void write_expert(Job& job, std::uint64_t expert, SectionReader& reader) {
    for (std::size_t i = 0; i < job.origins->size(); ++i) {
      const Origin& origin = (*job.origins)[i];
      const std::uint64_t bytes = section_bytes(origin.stored, job.source->shape);
      const bool can_share = share_ && !origin.derived();
      Xxh3 digest;
      // A damaged cache must not take a layer off the sidecar that is compared with it. Without a manifest
      // the digest is computed from the bytes.
      if (job.output->compares() ||
          (can_share && (request_.trust == Trust::content || job.digests[i] == nullptr)))
        digest = read_section(job, i, expert, reader, ignore);
      else if (can_share)
        digest = (*job.digests[i])[expert];
      if (can_share) {
        if (job.output->share(expert, origin.made, job.files[i], expert * bytes, digest)) {
          shared_ += bytes;
          continue;
        }
        refuse_sharing(job, i);
      }
      digest = read_section(job, i, expert, reader, [&](std::uint64_t offset, ConstBytes piece) {
        job.output->write(expert, origin.made, offset, piece);
      });
      job.output->finish(expert, origin.made, digest);
      copied_ += section_bytes(origin.made, job.source->shape);
    }
  }

  // Called when sharing failed: from now on everything is copied.
  void refuse_sharing(const Job& job, std::size_t i) {
    if (request_.reflink == Reflink::always)
      throw Error(job.sink->describe(),
                  fmt::format("the file system cannot share blocks with {}; use --reflink auto",
                              job.files[i].path()));
    if (share_.exchange(false)) check_space();
  }

  // Reads a section and returns the digest of what the pack gets of it. Error (difference), after the last
  // piece: the section is not the manifest's, or the 2-bit codes of a derived one are not the cache's.
  Xxh3 read_section(const Job& job, std::size_t i, std::uint64_t expert, SectionReader& reader,
                    const SectionReader::Take& take) const {
    const Origin& origin = (*job.origins)[i];
    const std::uint64_t bytes = section_bytes(origin.stored, job.source->shape);
    const SectionReader::Digests found =
        reader.read(job.files[i], expert * bytes, bytes, origin.derived(), take);
    if (job.digests[i] != nullptr && found.stored != (*job.digests[i])[expert])
      throw Error(ErrorCode::difference, job.files[i].path(),
                  fmt::format("expert {} is not what the manifest says; make it again with verify-ckpt-id "
                              "repair {} --checkpoint DIR",
                              expert, shell_quoted(job.source->directory)))
          .at(expert * bytes);
    if (origin.derived()) require_codes(job, origin, expert, found.codes, reader);
    return found.made;
  }

  // The 2-bit codes that belong to a section's nibble planes must be the cache's.
  void require_codes(const Job& job, const Origin& origin, std::uint64_t expert, const Xxh3& codes,
                     SectionReader& reader) const {
    const bool w13 = origin.made == Section::fpq13;
    const std::string part =
        format::part_file(job.source->facts.layers[job.key], w13 ? "planes13" : "planes2");
    const std::string path = join(job.source->directory, part);
    const std::uint64_t bytes = section_bytes(w13 ? Section::planes13 : Section::planes2, job.source->shape);
    Xxh3 expected;
    if (const std::vector<Xxh3>* known = job.source->known(part))
      expected = (*known)[expert];
    else
      expected = reader.read(File::open_read(context_.os, path), expert * bytes, bytes, false, ignore).stored;
    if (expected != codes)
      throw Error(
          ErrorCode::difference, path,
          fmt::format("expert {}: the 2-bit planes are not those of the FP4 planes; make them again with "
                      "verify-ckpt-id repair {} --checkpoint DIR",
                      expert, shell_quoted(job.source->directory)))
          .at(expert * bytes);
  }

  const Context& context_;
  const FromCacheRequest& request_;
  const Kernels& kernels_;
  std::vector<CacheSource> sources_;
  std::vector<std::unique_ptr<PackSink>> sinks_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::atomic<bool> share_;
  std::map<dev_t, Outlook::FileSystem> systems_;  // needed: without shared blocks
  std::atomic<std::uint64_t> shared_{0}, copied_{0}, converted_{0};
};

}  // namespace

Reflink parse_reflink(std::string_view text) {
  if (text == "auto") return Reflink::automatic;
  if (text == "always") return Reflink::always;
  if (text == "never") return Reflink::never;
  throw Error(ErrorCode::usage, "", fmt::format("--reflink: '{}' is not one of auto, always, never", text));
}

FromCacheReport packs_from_planescache(const Context& context, const FromCacheRequest& request,
                                       const Kernels& kernels) {
  return Assembly(context, request, kernels).run();
}

}  // namespace planesmith
