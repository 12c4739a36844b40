#include "store/planted.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_status.h"
#include "base/text.h"

namespace planesmith {

std::string planted_link(Os& os, const std::string& base, const std::string& path) {
  for (std::size_t end = path.find('/', base.size() + 1);; end = path.find('/', end + 1)) {
    const std::string inner = path.substr(0, end);
    struct stat link {
    }, around{};
    if (!lstat_of(os, inner, link)) return "";  // callers report what cannot be read
    if (S_ISLNK(link.st_mode) && link.st_uid != geteuid() && link.st_uid != 0) {
      const std::string owner = owner_and_mode(link);
      const bool by_owner = stat_of(os, parent_of(inner), around) && around.st_uid == link.st_uid;
      if (!by_owner)
        return fmt::format("{}is a symbolic link of {}, which is not followed",
                           inner == path ? "" : inner.substr(base.size() + 1) + " ",
                           owner.substr(0, owner.find(',')));
      os.note_once(inner,
                   printable(fmt::format("{} is a symbolic link to {}; what is reported is about its target",
                                         inner, read_link(os, inner))));
    }
    if (end == path.npos) return "";
  }
}

}  // namespace planesmith
