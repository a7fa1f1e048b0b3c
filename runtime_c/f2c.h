/** @file f2c.h  What every generated model includes: version of the interface and the integer types. */
#ifndef F2C_H
#define F2C_H

#include <stdint.h>

#include "f2c_config.h"

/** Raised whenever generated code and these headers must change together. */
#define F2C_API 1

#endif /* F2C_H */
