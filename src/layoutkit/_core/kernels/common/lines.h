/* A buffer that collects a run of the destination, and from which whole cache lines are streamed. */
#ifndef LAYOUTKIT_LINES_H
#define LAYOUTKIT_LINES_H

#include "stream.h"

#include <string.h>

enum { LINE_BYTES = 64, BUFFER_BYTES = 4096 };

/* The buffer: bytes [begin, fill) of it go to `line`, an aligned address, and on. */
typedef struct {
    char *at, *line;
    int64_t begin, fill;
} buffer;

/* Streams the whole lines; the rest moves to the beginning of the buffer. */
LK_INLINE void put_lines(buffer *b)
{
    int64_t k = 0;
    const int64_t whole = b->fill / LINE_BYTES * LINE_BYTES;
    if (whole == 0)
        return;
    if (b->begin) {
        copy_line_part(b->line + b->begin, b->at + b->begin, (int)(LINE_BYTES - b->begin));
        b->begin = 0;
        k = LINE_BYTES;
    }
    for (; k < whole; k += LK_VB)
        stream_vector(b->line + k, b->at + k);
    memcpy(b->at, b->at + whole, LINE_BYTES);
    b->line += whole;
    b->fill -= whole;
}

/* Writes the rest. */
LK_INLINE void put_rest(buffer *b)
{
    put_lines(b);
    if (b->fill > b->begin)
        copy_line_part(b->line + b->begin, b->at + b->begin, (int)(b->fill - b->begin));
    b->fill = b->begin = 0;
}

/* Continues at d; the rest of another run is written first. */
LK_INLINE void go_to(buffer *b, char *d)
{
    if (d == b->line + b->fill)
        return;
    put_rest(b);
    b->begin = b->fill = (intptr_t)d % LINE_BYTES;
    b->line = d - b->begin;
}

#endif
