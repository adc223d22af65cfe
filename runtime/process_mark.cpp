#include "runtime/process_mark.hpp"

#include <cerrno>

#include <sys/mman.h>

namespace shmoe::runtime {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

Result<ProcessMark> ProcessMark::make() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Error{.code = Errc::system, .context = "mapping a page", .sys = errno};
  ProcessMark mark(static_cast<const int*>(page));
  madvise(page, kPage, MADV_WIPEONFORK);  // where that is unknown, a child is not told from its parent
  *static_cast<int*>(page) = 1;
  return mark;
}

ProcessMark::~ProcessMark() {
  if (word_ != nullptr) munmap(const_cast<int*>(word_), kPage);
}

}  // namespace shmoe::runtime
