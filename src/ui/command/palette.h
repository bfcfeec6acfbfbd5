/* palette.h - finding a command by a part of its name, or of what it does. */
#ifndef HX_UI_COMMAND_PALETTE_H
#define HX_UI_COMMAND_PALETTE_H

/* How well words, with blanks between, fit a name and what is said of it; the better, the more; 0:
 * not all of them do. A word fits a name when its letters stand there in this order, and what is
 * said when it stands there. Nothing typed fits everything alike. */
int hx_palette_score(const char *words, const char *name, const char *about);

#endif
