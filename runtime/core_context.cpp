#include "runtime/core_context.hpp"

namespace shmoe::runtime {

//   core 0  --add 1-->+                       every core adds one to the rank's own slot and waits until all cores of
//   core 1  --add 1-->| sync-all slot >= base + generation * C     this generation have: nobody clears anything
//   core 2  --add 1-->+                       one core alone has nobody to wait for
shmem::Witness CoreContext::sync_all(SourceSite site) {
  SHMOE_EXPECTS(launch_->blocks <= launch_->physical,
                "SyncAll at {}:{} in a launch of {} cores on a grid of {}: later batches could never arrive; launch at "
                "most {} cores",
                site.file, site.line, launch_->blocks, launch_->physical, launch_->physical);
  quiet(site);
  if (launch_->blocks == 1) return shmem::Witness::own();
  const Slot slot = slots().sync_all().at(0, Rank{0});
  signal(rank(), slot, shmem::SignalOp::add, 1, site);
  ++generation_;
  const std::uint64_t everyone = launch_->sync_base + generation_ * static_cast<std::uint64_t>(launch_->blocks);
  std::optional<shmem::Time> deadline;
  if (launch_->sync_limit) deadline = fabric().now() + *launch_->sync_limit;
  return consume_token(wait(
      {.where = rank(), .slots = {&slot, 1}, .compare = Compare::at_least, .value = everyone, .deadline = deadline},
      site));
}

}  // namespace shmoe::runtime
