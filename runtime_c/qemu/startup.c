/* Start-up code for the boards of QEMU that fuse2c measures on: vectors, FPU and MVE switched on, .data and .bss,
 * SysTick as an instruction counter, text and exit over semihosting, and a fault handler that says what happened.
 * It serves Armv7-M, Armv8-M and Armv8.1-M; QEMU must run with `-icount shift=0 -semihosting-config enable=on`. */
#include "f2c_board.h"

#ifndef F2C_QUARTER_NS_PER_TICK
#error "define F2C_QUARTER_NS_PER_TICK: 160 for a SysTick of 25 MHz, 200 for 20 MHz, 125 for 32 MHz"
#endif

/* System control space, the same addresses on every Cortex-M. */
#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)
#define SCB_CCR (*(volatile uint32_t *)0xE000ED14u)
#define SCB_CFSR (*(volatile uint32_t *)0xE000ED28u)
#define SCB_HFSR (*(volatile uint32_t *)0xE000ED2Cu)
#define SCB_BFAR (*(volatile uint32_t *)0xE000ED38u)
#define SCB_CPACR (*(volatile uint32_t *)0xE000ED88u)
#define MPU_CTRL (*(volatile uint32_t *)0xE000ED94u)
#define MPU_RNR (*(volatile uint32_t *)0xE000ED98u)
#define MPU_RBAR (*(volatile uint32_t *)0xE000ED9Cu)
#define MPU_RASR (*(volatile uint32_t *)0xE000EDA0u)

#define SYST_PERIOD 0x1000000u           /* 24 bits, the whole counter */
#define SYST_ENABLE_IRQ_CORE 7u          /* enabled, with interrupt, from the processor's clock */
#define SCB_CCR_LOB (1u << 19)           /* low-overhead loops; reserved before Armv8.1-M */
#define SCB_CPACR_FPU (0xFu << 20)       /* full access to CP10 and CP11: floating point and MVE */

#define SCB_CFSR_STKOF (1u << 20)        /* Armv8-M: a stack pointer went below its limit */
#define MPU_NO_ACCESS_16M (1u << 28 | 23u << 1 | 1u) /* Armv7-M: no execution, no access, 2^24 bytes, enabled */
#define MPU_DEFAULT_MAP 5u               /* on; everything that no region covers stays as it is */
#define BELOW_STACK 0x1F000000u          /* mps2.ld puts the stack at 0x20000000 */

#define SEMIHOST_WRITE0 0x04u
#define SEMIHOST_EXIT_EXTENDED 0x20u
#define SEMIHOST_APPLICATION_EXIT 0x20026u

#define FAULT_STATUS 3

extern uint32_t f2c_data_load[], f2c_data_start[], f2c_data_end[], f2c_bss_start[], f2c_bss_end[];
int main(void);
void f2c_reset(void);
void f2c_fault(void);
void f2c_systick(void);
void f2c_report_fault(const uint32_t *frame);

static volatile uint32_t f2c_wraps;

static void semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void f2c_put(const char *text)
{
    semihost(SEMIHOST_WRITE0, text);
}

void f2c_put_hex(uint64_t value, unsigned digits)
{
    char text[17];
    if (digits > 16u) {
        digits = 16u;
    }
    text[digits] = '\0';
    while (digits > 0u) {
        text[--digits] = "0123456789abcdef"[value & 15u];
        value >>= 4;
    }
    f2c_put(text);
}

void f2c_exit(int status)
{
    const uint32_t block[2] = {SEMIHOST_APPLICATION_EXIT, (uint32_t)status};
    semihost(SEMIHOST_EXIT_EXTENDED, block);
    for (;;) {
    }
}

void f2c_systick(void)
{
    f2c_wraps = f2c_wraps + 1u;
}

void f2c_clock_start(void)
{
    SYST_RVR = SYST_PERIOD - 1u;
    SYST_CVR = 0u;
    SYST_CSR = SYST_ENABLE_IRQ_CORE;
}

uint64_t f2c_clock_ticks(void)
{
    uint32_t wraps, value;
    do { /* again if the counter wrapped between the two reads */
        wraps = f2c_wraps;
        value = SYST_CVR;
    } while (wraps != f2c_wraps);
    return (uint64_t)wraps * SYST_PERIOD + (SYST_PERIOD - 1u - value);
}

uint64_t f2c_clock_instructions(uint64_t ticks)
{
    return ticks * F2C_QUARTER_NS_PER_TICK / 4u;
}

static void put_register(const char *name, uint32_t value)
{
    f2c_put(name);
    f2c_put_hex(value, 8u);
}

/* `frame` is what the processor pushed: r0-r3, r12, lr, pc, psr; nothing, if there was no stack left for it. */
void f2c_report_fault(const uint32_t *frame)
{
    if (frame <= f2c_stack_limit || (SCB_CFSR & SCB_CFSR_STKOF) != 0u) {
        f2c_put("\nfault stack overflow");
    } else {
        put_register("\nfault pc=", frame[6]);
        put_register(" lr=", frame[5]);
    }
    put_register(" cfsr=", SCB_CFSR);
    put_register(" hfsr=", SCB_HFSR);
    put_register(" bfar=", SCB_BFAR);
    f2c_put("\n");
    f2c_exit(FAULT_STATUS);
}

/* Naked, because a prologue would move the stack pointer away from the frame. The report starts a stack of its own at
 * the top, over a program that does not come back, as the old one may be what overflowed. */
__attribute__((naked)) void f2c_fault(void)
{
    __asm__ volatile("mov r0, sp\n\tldr r1, =f2c_stack_top\n\tmov sp, r1\n\tb f2c_report_fault\n\t.ltorg");
}

/* A stack that overflows must fault. Armv8-M has a limit for that. Before that the memory protection unit forbids what
 * is below the RAM, where QEMU's MPS2 boards would swallow writes without a word. */
static void guard_stack(void)
{
#if defined(__ARM_ARCH) && __ARM_ARCH < 8
    MPU_RNR = 0u;
    MPU_RBAR = BELOW_STACK;
    MPU_RASR = MPU_NO_ACCESS_16M;
    MPU_CTRL = MPU_DEFAULT_MAP;
#else
    __asm__ volatile("msr msplim, %0" : : "r"(f2c_stack_limit));
#endif
}

void f2c_reset(void)
{
    const uint32_t *from = f2c_data_load;
    SCB_CPACR |= SCB_CPACR_FPU;
#if defined(__ARM_FEATURE_LOB) || defined(__ARM_FEATURE_MVE)
    SCB_CCR |= SCB_CCR_LOB;
#endif
    guard_stack();
    __asm__ volatile("dsb\n\tisb" : : : "memory");
    for (uint32_t *to = f2c_data_start; to < f2c_data_end; ++to) {
        *to = *from++;
    }
    for (uint32_t *to = f2c_bss_start; to < f2c_bss_end; ++to) {
        *to = 0u;
    }
    f2c_exit(main());
}

struct f2c_vectors {
    uint32_t *stack;
    void (*handlers[15])(void);
};

extern const struct f2c_vectors f2c_vectors;

__attribute__((section(".vectors"), used)) const struct f2c_vectors f2c_vectors = {
    f2c_stack_top,
    {
        f2c_reset, f2c_fault, f2c_fault, f2c_fault, f2c_fault, f2c_fault, f2c_fault, /* reset, NMI, the faults */
        0, 0, 0, f2c_fault, f2c_fault, 0, f2c_fault, f2c_systick,                    /* SVC, debug, PendSV, SysTick */
    },
};
