/* What startup.c offers to a program on one of QEMU's boards: text out, a clock, an exit. Nothing of libc. */
#ifndef F2C_BOARD_H
#define F2C_BOARD_H

#include <stdint.h>

/* Where the linker script put the stack: it grows down from f2c_stack_top, and below f2c_stack_limit nothing can be
 * written, so that a stack that overflows faults instead of writing over a model's tensors. */
extern uint32_t f2c_stack_limit[], f2c_stack_top[];

/* Writes a string, or a number as `digits` hexadecimal digits, to QEMU's standard output. */
void f2c_put(const char *text);
void f2c_put_hex(uint64_t value, unsigned digits);

/* Ends QEMU with this exit status. */
void f2c_exit(int status);

/* Starts the clock; before that no interrupt happens at all. */
void f2c_clock_start(void);

/* Ticks since the start. One tick is F2C_QUARTER_NS_PER_TICK / 4 nanoseconds, and with QEMU's `-icount shift=0`
 * a nanosecond is an instruction. A tick is the granularity of every count:
 *   MPS2 boards, 25 MHz (Cortex-M3, M4, M7): 40 instructions; 20 MHz (Cortex-M33): 50; MPS3 board, 32 MHz
 *   (Cortex-M55): 31.25 instructions. */
uint64_t f2c_clock_ticks(void);

/* A span of the clock in instructions, rounded down. */
uint64_t f2c_clock_instructions(uint64_t ticks);

#endif
