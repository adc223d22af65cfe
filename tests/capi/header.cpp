// As a program in C++ includes it.
#include <shmoe.h>

extern const shmoe_config capi_header_in_cpp;
const shmoe_config capi_header_in_cpp = {
    .size = sizeof(shmoe_config), .settings = nullptr, .comm_id = nullptr, .uses = SHMOE_USES_AFD};
static_assert(SHMOE_BROKEN_CONTRACT == 17);
