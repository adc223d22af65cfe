#include "shmem/context.hpp"

#include <cstdio>
#include <cstdlib>

namespace shmoe::shmem {

Token::~Token() {
#ifndef NDEBUG
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  if (pending_ && !unwinding) {
    std::fprintf(stderr, "contract violated: the token of the wait at %s:%u was never consumed\n", site_.file,
                 site_.line);
    std::abort();
  }
#endif
}

Token Context::wait(const WaitSpec& spec, SourceSite site) {
  SHMOE_EXPECTS(open_views_ == 0, "core {} of rank {} waits at {}:{} while {} views are open: close them first",
                place_.core, place_.rank, site.file, site.line, open_views_);
  Result<Arrival> arrival = fabric_->wait(spec, site);
  if (!arrival) throw Interrupted(std::move(arrival).error());
  return {*arrival, site};
}

}  // namespace shmoe::shmem
