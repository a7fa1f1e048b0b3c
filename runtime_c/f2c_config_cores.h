/** @file f2c_config_cores.h  What depends on the compiler where several cores meet. */
#ifndef F2C_CONFIG_CORES_H
#define F2C_CONFIG_CORES_H

/** F2C_RELEASE(at, v): store v into a uint32_t for other cores, after all that was written before; F2C_ACQUIRE(at): load it,
 *  before all that is read afterwards. A load, a store and a barrier: Cortex-M0+ has no more. */
#if defined(__GNUC__)
#define F2C_RELEASE(at, v) __atomic_store_n((at), (v), __ATOMIC_RELEASE)
#define F2C_ACQUIRE(at) __atomic_load_n((at), __ATOMIC_ACQUIRE)
#else
#include <stdatomic.h>
#define F2C_RELEASE(at, v) atomic_store_explicit((_Atomic uint32_t *)(at), (v), memory_order_release)
#define F2C_ACQUIRE(at) atomic_load_explicit((_Atomic uint32_t *)(at), memory_order_acquire)
#endif

/** F2C_WAIT(): what a core does while others work, again and again; F2C_WAKE(): after it has said that it is there. Nothing,
 *  or define both: __WFE() and __SEV() sleep. F2C_GIVE(), F2C_TAKE(): before it says so, and when all are there: clean and
 *  invalidate the data cache, where there is one over memory that the cores share. */
#ifndef F2C_WAIT
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#define F2C_WAIT() ((void)sched_yield())
#else
#define F2C_WAIT() ((void)0)
#endif
#endif
#ifndef F2C_WAKE
#define F2C_WAKE() ((void)0)
#endif
#ifndef F2C_GIVE
#define F2C_GIVE() ((void)0)
#define F2C_TAKE() ((void)0)
#endif

#endif /* F2C_CONFIG_CORES_H */
