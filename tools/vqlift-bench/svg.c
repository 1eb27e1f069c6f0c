/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/svg.h"

static const char style[] =
        "<style>\n"
        "svg { background: #ffffff; font-family: sans-serif; font-size: 13px }\n"
        "text { fill: #222222 }\n"
        ".title { font-size: 15px; font-weight: bold }\n"
        ".frame { stroke: #555555; fill: none }\n"
        ".grid { stroke: #dddddd; fill: none }\n"
        ".s0 { stroke: #0b62b8; fill: none; stroke-width: 2.5 }\n"
        ".s1 { stroke: #c2570c; fill: none; stroke-width: 2.5; "
        "stroke-dasharray: 7 4 }\n"
        ".s2 { stroke: #4b7f2b; fill: none; stroke-width: 1.5; "
        "stroke-dasharray: 2 3 }\n"
        ".m0 { fill: #0b62b8 } .m1 { fill: #c2570c } .m2 { fill: #4b7f2b }\n"
        "@media (prefers-color-scheme: dark) {\n"
        "svg { background: #16181c } text { fill: #e6e6e6 }\n"
        ".frame { stroke: #999999 } .grid { stroke: #33373d }\n"
        ".s0 { stroke: #6db3f8 } .s1 { stroke: #f7a35c } "
        ".s2 { stroke: #9ccf74 }\n"
        ".m0 { fill: #6db3f8 } .m1 { fill: #f7a35c } .m2 { fill: #9ccf74 }\n"
        "}\n"
        "</style>\n";

static void escaped(FILE *f, const char *text)
{
        for (; *text; text++) {
                switch (*text) {
                case '&':
                        fputs("&amp;", f);
                        break;
                case '<':
                        fputs("&lt;", f);
                        break;
                case '>':
                        fputs("&gt;", f);
                        break;
                default:
                        fputc(*text, f);
                }
        }
}

void svg_begin(FILE *f, int width, int height, const char *title)
{
        fprintf(f,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" role=\"img\">\n<title>",
                width, height, width, height);
        escaped(f, title);
        fprintf(f, "</title>\n%s", style);
}

void svg_end(FILE *f)
{
        fputs("</svg>\n", f);
}

void svg_line(FILE *f, const char *class, struct svg_point from, struct svg_point to)
{
        fprintf(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
                from.x, from.y, to.x, to.y);
}

void svg_series(FILE *f, unsigned int number, const struct svg_point *p, size_t n)
{
        fprintf(f, "<polyline class=\"s%u\" points=\"", number);
        for (size_t i = 0; i < n; i++)
                fprintf(f, "%s%.1f,%.1f", i ? " " : "", p[i].x, p[i].y);
        fputs("\"/>\n", f);
        for (size_t i = 0; i < n; i++)
                fprintf(f, "<circle class=\"m%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", number,
                        p[i].x, p[i].y);
}

void svg_text(FILE *f, const char *class, struct svg_point at, const char *anchor, const char *text)
{
        fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, at.x,
                at.y, anchor);
        escaped(f, text);
        fputs("</text>\n", f);
}
