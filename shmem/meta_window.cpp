#include "shmem/meta_window.hpp"

#include <cerrno>

#include <sys/mman.h>

namespace shmoe::shmem {

Result<MetaWindow> MetaWindow::map(std::span<std::byte* const> blocks, Bytes size) {
  const auto failed = [&](std::string_view what) {
    return Error{.code = Errc::system,
                 .context = fmt::format("{} for the flags of {} ranks: raise `ulimit -v` or vm.max_map_count", what,
                                        blocks.size()),
                 .where = {},
                 .sys = errno};
  };
  std::optional<Addresses> addresses = Addresses::reserve(blocks.size() * size.value());
  if (!addresses) return failed("reserving addresses");
  MetaWindow window(*std::move(addresses), size);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    // From a size of zero mremap makes a second mapping of what is shared.
    void* place = window.of(Rank{i});
    if (mremap(blocks[i], 0, size.value(), MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
      return failed("mapping");
  }
  return window;
}

}  // namespace shmoe::shmem
