/* screen.c - the table of screens. */
#include "ui/screen.h"

#include <string.h>

const struct hx_screen *const hx_screens[HX_SCREENS] = {
#define HX_UI_SCREEN_ENTRY(name) &hx_screen_##name,
    HX_UI_SCREENS(HX_UI_SCREEN_ENTRY)
#undef HX_UI_SCREEN_ENTRY
};

const struct hx_screen *hx_screen_find(const char *name)
{
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (strcmp(hx_screens[i]->name, name) == 0)
            return hx_screens[i];
    return NULL;
}

const struct hx_screen *hx_screen_by_digit(int digit)
{
    for (size_t i = 0; i < HX_SCREENS; i++)
        if (hx_screens[i]->digit == digit)
            return hx_screens[i];
    return NULL;
}
