/* Runs one model twice on a board of QEMU and reports what it cost. bench_case.h, which fuse2c writes, brings the
 * model's header, the inputs and these names:
 *   F2C_BENCH_CALL()            the call of <name>_run, an int
 *   F2C_BENCH_RESET()           the call of <name>_reset; nothing for a model without states
 *   F2C_BENCH_REGIONS           how many memory regions the model writes to
 *   F2C_BENCH_OUTPUTS           the first so many of them are outputs; an arena may follow
 *   f2c_bench_regions[]         each with `memory` of `bytes` bytes and F2C_BENCH_GUARD bytes more behind them
 *
 * The first run starts on a painted stack, before the clock and its interrupt run, so that every byte of stack it
 * takes is the model's own. The second is counted; see f2c_board.h for the granularity of the count. Before each of
 * them the regions are filled with another pattern: a model that reads memory it never wrote, or that leaves part
 * of an output unwritten, gives two different answers and is caught by `repeat`.
 *
 * What it prints, all numbers hexadecimal:
 *   f2c-bench 1
 *   returned <what the counted run returned>
 *   instructions <of the counted run, without the cost of measuring>
 *   stack <bytes the first run took below its caller's frame>
 *   repeat <1 if both runs returned and wrote the same>
 *   guard <1 if nothing was written behind a region and the stack did not overflow>
 *   step <instructions of a call of <name>_step>, for each
 *   output <index> <bytes>
 *   <32 bytes a line>
 *   end */
#include "f2c_board.h"

#define F2C_BENCH_GUARD 16

struct f2c_bench_region {
    uint8_t *memory;
    uint32_t bytes;
};

#include "bench_case.h"

#define STACK_PAINT 0xA5C3965Au
#define GUARD_PAINT 0xC3u
#define BYTES_A_LINE 32u

static uintptr_t stack_entry;
static volatile int returned;

static void fill_regions(uint8_t pattern)
{
    for (uint32_t region = 0; region < F2C_BENCH_REGIONS; ++region) {
        const uint32_t bytes = f2c_bench_regions[region].bytes;
        uint8_t *const memory = f2c_bench_regions[region].memory;
        for (uint32_t at = 0; at < bytes + F2C_BENCH_GUARD; ++at) {
            memory[at] = at < bytes ? pattern : GUARD_PAINT;
        }
    }
}

static uint32_t guards_hold(void)
{
    uint32_t hold = f2c_stack_limit[0] == STACK_PAINT ? 1u : 0u;
    for (uint32_t region = 0; region < F2C_BENCH_REGIONS; ++region) {
        const uint8_t *const guard = f2c_bench_regions[region].memory + f2c_bench_regions[region].bytes;
        for (uint32_t at = 0; at < F2C_BENCH_GUARD; ++at) {
            hold = guard[at] == GUARD_PAINT ? hold : 0u;
        }
    }
    return hold;
}

/* FNV-1a over all outputs: two runs are compared without a second copy of the outputs. */
static uint32_t hash_outputs(void)
{
    uint32_t hash = 2166136261u;
    for (uint32_t output = 0; output < F2C_BENCH_OUTPUTS; ++output) {
        for (uint32_t at = 0; at < f2c_bench_regions[output].bytes; ++at) {
            hash = (hash ^ f2c_bench_regions[output].memory[at]) * 16777619u;
        }
    }
    return hash;
}

/* Paints in the frame that calls the model, so that painting stops exactly where the model's stack starts.
 * `volatile` keeps the compiler from painting with memset, whose own frame would lie in the painted part;
 * storing the result after the call keeps it from a tail call, which would move the stack pointer. */
__attribute__((noinline)) static void run_on_painted_stack(void)
{
    uintptr_t pointer;
    __asm__ volatile("mov %0, sp" : "=r"(pointer) : : "memory");
    for (volatile uint32_t *word = f2c_stack_limit; (uintptr_t)word < pointer; ++word) {
        *word = STACK_PAINT;
    }
    stack_entry = pointer;
    returned = F2C_BENCH_CALL();
}

static uint32_t stack_taken(void)
{
    const volatile uint32_t *word = f2c_stack_limit;
    while ((uintptr_t)word < stack_entry && *word == STACK_PAINT) {
        ++word;
    }
    return (uint32_t)(stack_entry - (uintptr_t)word);
}

static void run_model(void)
{
    returned = F2C_BENCH_CALL();
}

#ifdef F2C_BENCH_STEPS
static void run_step(void)
{
    returned = F2C_BENCH_STEP();
}
#endif

static void run_nothing(void)
{
    returned = 0;
}

/* Ticks of one call, counted from the edge of a tick, so that the same call always gives the same number. */
__attribute__((noinline)) static uint64_t ticks_of(void (*volatile function)(void))
{
    uint64_t start;
    const uint64_t before = f2c_clock_ticks();
    do {
        start = f2c_clock_ticks();
    } while (start == before);
    function();
    return f2c_clock_ticks() - start;
}

static void put_line(const char *key, uint64_t value, unsigned digits)
{
    f2c_put(key);
    f2c_put_hex(value, digits);
    f2c_put("\n");
}

static void put_output(uint32_t output)
{
    const struct f2c_bench_region region = f2c_bench_regions[output];
    char line[2u * BYTES_A_LINE + 2u];
    uint32_t used = 0;
    f2c_put("output ");
    f2c_put_hex(output, 2u);
    put_line(" ", region.bytes, 8u);
    for (uint32_t at = 0; at < region.bytes; ++at) {
        line[used++] = "0123456789abcdef"[region.memory[at] >> 4];
        line[used++] = "0123456789abcdef"[region.memory[at] & 15u];
        if (used == 2u * BYTES_A_LINE || at + 1u == region.bytes) {
            line[used++] = '\n';
            line[used] = '\0';
            f2c_put(line);
            used = 0;
        }
    }
}

#ifdef F2C_BENCH_STEPS
static uint64_t steps[F2C_BENCH_STEPS];

/* The same inference step by step; whether it ended where it should, with the same outputs. */
static uint32_t run_steps(uint64_t overhead, uint32_t hash)
{
    fill_regions(0x96u);
    F2C_BENCH_RESET();
    F2C_BENCH_INIT();
    for (uint32_t at = 0; at < F2C_BENCH_STEPS; ++at) {
        const uint64_t ticks = ticks_of(run_step);
        steps[at] = ticks > overhead ? ticks - overhead : 0u;
        if (returned != (at + 1u < F2C_BENCH_STEPS)) {
            return 0u;
        }
    }
    return hash == hash_outputs() ? 1u : 0u;
}
#endif

int main(void)
{
    uint64_t overhead, ticks;
    uint32_t stack, hold, hash, same;
    int first;

    fill_regions(0xA5u);
    F2C_BENCH_RESET();
    run_on_painted_stack();
    stack = stack_taken();
    hold = guards_hold();
    hash = hash_outputs();
    first = returned;

    fill_regions(0x5Au);
    F2C_BENCH_RESET();
    f2c_clock_start();
    overhead = ticks_of(run_nothing);
    ticks = ticks_of(run_model);
    ticks = ticks > overhead ? ticks - overhead : 0u;

    same = first == returned && hash == hash_outputs() ? 1u : 0u;
#ifdef F2C_BENCH_STEPS
    same &= run_steps(overhead, hash);
#endif
    f2c_put("f2c-bench 1\n");
    put_line("returned ", (uint32_t)first, 8u);
    put_line("instructions ", f2c_clock_instructions(ticks), 16u);
    put_line("stack ", stack, 8u);
    put_line("repeat ", same, 1u);
    put_line("guard ", guards_hold() & hold, 1u);
#ifdef F2C_BENCH_STEPS
    for (uint32_t at = 0; at < F2C_BENCH_STEPS; ++at) {
        put_line("step ", f2c_clock_instructions(steps[at]), 16u);
    }
#endif
    for (uint32_t output = 0; output < F2C_BENCH_OUTPUTS; ++output) {
        put_output(output);
    }
    f2c_put("end\n");
    return 0;
}
