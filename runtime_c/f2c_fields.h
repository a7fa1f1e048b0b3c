/** @file f2c_fields.h  Sums of three pixels in two words, for cores that multiply and add words and nothing smaller.
 *
 * The words are first + 2^21 * second and third + 2^10 * second. Multiplied by weights and added up modulo 2^32 they hold
 * the sums s0, s1, s2 in the same way, and these can be told apart where |s0| < 2^20, |s1| < 2^21, |s2| < 2^20: the first
 * word has s0 and the 11 lower bits of s1, which tell what the second one has of s1 but for its 11 upper bits.
 */
#ifndef F2C_FIELDS_H
#define F2C_FIELDS_H

#include <stdint.h>

/** Byte n of a word, with its sign. */
static inline int32_t f2c_byte(int32_t word, int32_t n)
{
    return (int8_t)((uint32_t)word >> (8 * n));
}

/** sum + a * b. */
static inline int32_t f2c_mla(int32_t a, int32_t b, int32_t sum)
{
    return sum + (a * b);
}

/** low + 2^shift * high, modulo 2^32. */
static inline uint32_t f2c_fields(int32_t low, int32_t high, int32_t shift)
{
    return (uint32_t)low + ((uint32_t)high << shift);
}

/** The lower 21 bits of a word, with their sign. */
static inline int32_t f2c_low_field(uint32_t word)
{
    return (int32_t)(word << 11) >> 11;
}

/** Adds the three sums that two words hold to s0, s1, s2. */
static inline void f2c_add_fields(uint32_t a, uint32_t b, int32_t *s0, int32_t *s1, int32_t *s2)
{
    const int32_t first = f2c_low_field(a);
    const uint32_t lower = (a - (uint32_t)first) >> 21;
    const uint32_t rest = b - (lower << 10);
    const int32_t third = f2c_low_field(rest);
    *s0 += first;
    *s1 += (int32_t)lower + ((int32_t)(rest - (uint32_t)third) >> 10);
    *s2 += third;
}

#endif /* F2C_FIELDS_H */
