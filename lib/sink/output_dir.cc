#include "sink/output_dir.h"

#include "base/error.h"

namespace planesmith {

OutputDir::OutputDir(Os& os, std::string root, std::string below)
    : os_(os),
      root_(std::move(root)),
      below_(std::move(below)),
      path_(below_ == "." ? root_ : join(root_, below_)) {}

const Dir* OutputDir::find() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!dir_)
    if (const std::optional<Dir> root = Dir::find(os_, root_))
      dir_ = below_ == "." ? root : root->find_dir(below_);
  return dir_ ? &*dir_ : nullptr;
}

const Dir& OutputDir::get() const {
  const Dir* const dir = find();
  if (dir == nullptr) throw Error(path_, "does not exist");
  return *dir;
}

const Dir& OutputDir::make() const {
  if (const Dir* const dir = find()) return *dir;
  const Dir root = Dir::make(os_, root_);
  const std::lock_guard<std::mutex> lock(mutex_);
  dir_ = below_ == "." ? root : root.make_dirs(below_);
  return *dir_;
}

}  // namespace planesmith
