/* axis.c - steps of axes, and what stands at their ticks. */
#include "layout/axis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* --- rows of cells: there are few steps, and their numbers are short --- */

double hx_nice_bytes(double range, int most)
{
    static const int steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
    double unit = 1;
    most = most < 1 ? 1 : most;
    for (int u = 0; u < 7; u++, unit *= 1024)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            /* Multiples that come to the next unit are parts of it. */
            bool beyond = range > 1000 * unit && steps[i] >= 200;
            double step = unit * (!beyond ? steps[i] : steps[i] == 200 ? 256 : 512);
            if (range <= step * most)
                return step;
        }
    return range > 0 ? range : 1;
}

void hx_put_nice_bytes(double bytes, char ret[HX_HUMAN])
{
    const char *unit = "BKMGTPE";
    while (bytes >= 1000 && unit[1]) {
        bytes /= 1024;
        unit++;
    }
    if (*unit == 'B')
        snprintf(ret, HX_HUMAN, "%.0f", bytes);
    else
        snprintf(ret, HX_HUMAN, "%.3g%c", bytes, *unit);
}

double hx_nice_seconds(double range, int most)
{
    static const double steps[] = {1,      2,      5,       10,      15,      30,
                                   60,     120,    300,     600,     900,     1800,
                                   3600,   7200,   10800,   21600,   43200,   86400,
                                   172800, 604800, 1209600, 2592000, 7776000, 31536000};
    static const int tenths[] = {1, 2, 5};
    most = most < 1 ? 1 : most;
    for (double unit = 1e-6; unit < 0.5; unit *= 10)
        for (int i = 0; i < 3; i++)
            if (range <= unit * tenths[i] * most)
                return unit * tenths[i];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (range <= steps[i] * most)
            return steps[i];
    double step = 31536000;
    while (range > step * most)
        step *= 10;
    return step;
}

void hx_put_nice_seconds(double seconds, char ret[32])
{
    static const struct {
        double seconds;
        char name;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    if (seconds <= 0) {
        snprintf(ret, 32, "0");
        return;
    }
    if (seconds < 60 || seconds > 1e12) {
        snprintf(ret, 32, "+%.3gs", seconds);
        return;
    }
    /* Two units say enough. */
    int first = 0;
    while (seconds < units[first].seconds)
        first++;
    double whole = floor(seconds / units[first].seconds + 1e-9);
    double rest = seconds - whole * units[first].seconds;
    int n = snprintf(ret, 32, "+%.0f%c", whole, units[first].name);
    double next = first < 3 ? floor(rest / units[first + 1].seconds + 1e-9) : 0;
    if (next > 0 && n > 0 && n < 32)
        snprintf(ret + n, 32 - (size_t)n, "%.0f%c", next, units[first + 1].name);
}

/* --- drawings: halves and quarters of a unit stand evenly --- */

uint64_t hx_step_bytes(uint64_t range, unsigned most)
{
    uint64_t step = 1;
    while (range / step >= most && step < UINT64_C(1) << 62)
        step *= 2;
    return step;
}

/* A number with three decimals at most, without zeros at its end. */
static void put_decimal(struct hx_text *text, uint64_t whole, uint64_t part, uint64_t of)
{
    uint64_t thousandths = (uint64_t)((double)part / (double)of * 1000 + 0.5);
    char digits[8];
    hx_text_putf(text, "%" PRIu64, whole);
    if (!thousandths || thousandths > 999)
        return;
    snprintf(digits, sizeof digits, "%03u", (unsigned)thousandths);
    for (size_t n = 3; n && digits[n - 1] == '0';)
        digits[--n] = 0;
    hx_text_putf(text, ".%s", digits);
}

void hx_put_step_bytes(struct hx_text *text, uint64_t bytes)
{
    static const char units[] = " KMGTPE";
    size_t unit = 0;
    while (unit + 2 < sizeof units && bytes >> 10 * (unit + 1))
        unit++;
    uint64_t one = UINT64_C(1) << 10 * unit;
    put_decimal(text, bytes / one, bytes % one, one);
    if (unit)
        hx_text_putc(text, units[unit]);
}

#define SECOND UINT64_C(1000000000)
static const struct {
    uint64_t ns;
    const char *unit;
} clock_units[] = {{86400 * SECOND, "d"}, {3600 * SECOND, "h"}, {60 * SECOND, "m"}};

uint64_t hx_step_ns(uint64_t range, unsigned most)
{
    static const uint32_t steps[] = {1,     2,     5,      10,     15,     30,      60,     120,
                                     300,   600,   900,    1800,   3600,   7200,    10800,  21600,
                                     43200, 86400, 172800, 432000, 604800, 1209600, 2592000};
    for (uint64_t ten = 1; ten < SECOND; ten *= 10)
        for (uint64_t step = ten; step <= 5 * ten; step += step / ten == 2 ? 3 * ten : step)
            if (range / step < most)
                return step;
    uint64_t step = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        step = steps[i] * SECOND;
        if (range / step < most)
            return step;
    }
    while (range / step >= most && step < UINT64_MAX / 4)
        step *= 2;
    return step;
}

void hx_put_step_ns(struct hx_text *text, uint64_t ns)
{
    size_t before = text->n;
    if (ns < SECOND && ns) {
        bool micro = ns < 1000000;
        uint64_t unit = ns < 1000 ? 1 : micro ? 1000 : 1000000;
        put_decimal(text, ns / unit, ns % unit, unit);
        hx_text_puts(text, unit == 1 ? "ns" : micro ? "us" : "ms");
        return;
    }
    for (size_t i = 0; i < sizeof clock_units / sizeof *clock_units; i++) {
        if (ns >= clock_units[i].ns)
            hx_text_putf(text, "%" PRIu64 "%s", ns / clock_units[i].ns, clock_units[i].unit);
        ns %= clock_units[i].ns;
    }
    if (ns || text->n == before) {
        put_decimal(text, ns / SECOND, ns % SECOND, SECOND);
        hx_text_putc(text, 's');
    }
}
