/* hp.c - heap profiles as GHC writes them, for hp2ps and eventlog2html: any break-down over time.
 *
 * A file is a stream of words: a header of four, then samples of names and bytes. Readers differ
 * in what order of the header they take, in what makes a word, and in which numbers they know; what
 * is written here is what all of them take.
 */
#include "export/ghc/bands.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_LIMIT = 4999, JOB_LIMIT = 1000 }; /* bytes */

static hx_error *put_hp_string(struct hx_sink *sink, const char *key, const char *s)
{
    struct hx_text text = {0};
    hx_band_clean(&text, HX_BAND_TEXT, s, strlen(s));
    if (!text.failed)
        hx_band_cut(&text, JOB_LIMIT);
    hx_sink_putf(sink, "%s \"", key);
    for (const char *at = hx_text_str(&text); *at; at++)
        hx_sink_puts(sink, *at == '"' ? "\"\"" : (char[]){*at, 0});
    hx_sink_puts(sink, "\"\n");
    hx_error *err = text.failed ? hx_error_nomem() : NULL;
    hx_text_free(&text);
    return err;
}

/* By the option that asks GHC's runtime for it, readers know what a profile breaks down by. */
static hx_error *put_job(const struct hx_bands *bands, struct hx_sink *sink)
{
    struct hx_text job = {0};
    hx_text_puts(&job, hx_timepoints_program(&bands->timepoints, bands->export));
    if (bands->census->ghc_option)
        hx_text_putf(&job, " +RTS %s", bands->census->ghc_option);
    hx_error *err = job.failed ? hx_error_nomem() : put_hp_string(sink, "JOB", hx_text_str(&job));
    hx_text_free(&job);
    return err;
}

static hx_error *put_header(const struct hx_bands *bands, struct hx_sink *sink)
{
    const struct hx_timepoints *timepoints = &bands->timepoints;
    char date[HX_BAND_DATE];
    HX_TRY(put_job(bands, sink));
    /* from which the samples' times count */
    HX_TRY(put_hp_string(sink, "DATE", hx_band_date(timepoints->began_ns, date)));
    HX_TRY(put_hp_string(sink, "SAMPLE_UNIT", "seconds"));
    return put_hp_string(sink, "VALUE_UNIT", "bytes");
}

static void put_mark(struct hx_sink *sink, const char *key, uint64_t ns)
{
    hx_sink_putf(sink, "%s %" PRIu64 ".%06" PRIu64 "\n", key, ns / 1000000000, ns / 1000 % 1000000);
}

static hx_error *put_hp_sample(struct hx_bands *bands, struct hx_sink *sink,
                               const struct hx_timepoint *timepoint)
{
    put_mark(sink, "BEGIN_SAMPLE", timepoint->since_ns);
    for (;;) {
        struct hx_band band;
        bool more;
        HX_TRY(hx_bands_next(bands, &band, &more));
        if (!more)
            break;
        hx_sink_putf(sink, "%s\t%" PRIu64 "\n", band.name, band.bytes);
    }
    put_mark(sink, "END_SAMPLE", timepoint->since_ns);
    return NULL;
}

static hx_error *write_hp(const struct hx_export *export, struct hx_sink *sink)
{
    HX_BANDS struct hx_bands bands = {0};
    HX_TRY(hx_bands_begin(export, HX_BAND_WORD, NAME_LIMIT, &bands));
    HX_TRY(put_header(&bands, sink));
    for (;;) {
        const struct hx_timepoint *timepoint;
        HX_TRY(hx_bands_sample(&bands, &timepoint));
        if (!timepoint)
            return NULL;
        HX_TRY(put_hp_sample(&bands, sink, timepoint));
    }
}

const struct hx_exporter hx_export_hp = {
    .name = "hp",
    .about = "GHC's heap profile, for hp2ps and eventlog2html",
    .by = HX_BANDS_BY,
    .censuses = HX_CENSUS_SAMPLED,
    .span = HX_EXPORT_SERIES,
    .write = write_hp,
};
