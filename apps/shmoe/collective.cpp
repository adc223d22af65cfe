#include "apps/shmoe/collective.hpp"

namespace shmoe::apps {

Result<void> agree(runtime::Communicator& comm, std::string_view what, const std::optional<Error>& mine) {
  // The published barrier carries no error, so there a rank that fails ends the job.
  if (mine && !comm.profile().handshake) {
    comm.abort(*mine);
    return *mine;
  }
  const runtime::CallCard card(what);
  return comm.launch(what, [&](runtime::CoreContext& context) {
    runtime::ZeroBufferSync sync(context);
    sync.enter(card, mine);
  });
}

}  // namespace shmoe::apps
