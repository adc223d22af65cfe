// As a program in C includes it.
#include <shmoe.h>

const shmoe_config capi_header_in_c = {.size = sizeof(shmoe_config), .uses = SHMOE_USES_AFD};
