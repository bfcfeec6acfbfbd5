/* classes.h - what classes.cc and its plugin share. */
#ifndef HX_TEST_CLASSES_H
#define HX_TEST_CLASSES_H

struct Shape {
    virtual ~Shape()
    {
    }
    virtual int corners() const = 0;
};

#endif
