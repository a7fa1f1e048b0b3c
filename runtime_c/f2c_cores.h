/** @file f2c_cores.h  Where cores that share an inference meet: a counter for each, which no other core writes. */
#ifndef F2C_CORES_H
#define F2C_CORES_H

#include <stdint.h>

#include "f2c_config.h"
#include "f2c_config_cores.h"

/** Core `core` of `cores` is there; returns when all of them are. What any of them wrote before, all can read afterwards.
 *  counts: a number for each core, all 0 before the first meeting; they go on from one inference to the next, and may
 *  wrap around, as no core is ever more than one meeting ahead of another. */
static inline void f2c_meet(uint32_t *counts, int32_t core, int32_t cores)
{
    const uint32_t meeting = counts[core] + 1u;

    F2C_GIVE();
    F2C_RELEASE(&counts[core], meeting);
    F2C_WAKE();
    for (int32_t i = 0; i < cores; ++i) {
        while ((F2C_ACQUIRE(&counts[i]) - meeting) > (UINT32_MAX / 2u)) {
            F2C_WAIT();
        }
    }
    F2C_TAKE();
}

#endif /* F2C_CORES_H */
