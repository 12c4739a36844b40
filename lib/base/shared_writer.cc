#include "base/shared_writer.h"

#include <errno.h>

#include <algorithm>

#include "base/budget.h"
#include "base/os_call.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kHuge = MemoryFiles::kHugePage;

}  // namespace

SharedWriter::SharedWriter(const Context& context, const File& file, std::uint64_t begin, std::uint64_t end,
                           std::uint64_t ranks)
    : memory_(MemoryFiles::of(context.os)) {
  if (context.threads < 2 || memory_per_thread(context) / ranks < kMapped || end - begin < kHuge) return;
  first_page_ = begin / kHuge;
  // A page that reaches beyond the file's end would waste memory.
  const std::uint64_t last = std::min((end + kHuge - 1) / kHuge, file.size() / kHuge);
  if (last <= first_page_) return;
  base_ = static_cast<std::uint8_t*>(
      memory_.map(file.fd(), static_cast<off_t>(first_page_ * kHuge), (last - first_page_) * kHuge));
  if (base_ != nullptr) states_ = std::vector<std::atomic<State>>(last - first_page_);
}

SharedWriter::~SharedWriter() {
  if (base_ != nullptr) memory_.unmap(base_, states_.size() * kHuge);
}

void SharedWriter::write(File& file, Range& range, ConstBytes bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::uint64_t page = offset / kHuge;
    const ConstBytes part = bytes.first(std::min<std::uint64_t>(bytes.size(), (page + 1) * kHuge - offset));
    if (page != range.page) {
      finish(range);
      range = {page, enter(file, page, part.first(1), offset)};
    }
    if (range.mapped)
      store(file, place(page) + offset % kHuge, part);
    else
      file.write(part, offset);
    bytes = bytes.subspan(part.size());
    offset += part.size();
  }
}

void SharedWriter::store(const File& file, std::uint8_t* to, ConstBytes from) {
  if (memory_.store(file.fd(), to, from.data(), from.size()) != 0)
    fail_errno(file.path(), "write failed", errno);
}

void SharedWriter::finish(Range& range) {
  if (range.mapped) memory_.forget(place(range.page), kHuge);  // another thread may continue there
  range = {};
}

// Whether the page can be stored into. The first thread makes it huge.
bool SharedWriter::enter(File& file, std::uint64_t page, ConstBytes first, std::uint64_t offset) {
  if (base_ == nullptr || page < first_page_ || page - first_page_ >= states_.size()) return false;
  std::atomic<State>& state = states_[page - first_page_];
  State now = state.load(std::memory_order_acquire);
  if (now != State::unknown) return now == State::huge;
  if (!memory_.pays()) return false;
  if (!state.compare_exchange_strong(now, State::in_work)) return now == State::huge;
  file.write(first, offset);  // a page without any data cannot be made huge
  const bool made = memory_.try_huge(place(page));
  state.store(made ? State::huge : State::refused, std::memory_order_release);
  return made;
}

}  // namespace planesmith
