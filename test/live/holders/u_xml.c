/* u_xml.c - two documents with libxml2: a catalogue that is parsed, and parsed again, and orders
 * that are built node by node; an index of products, an XPath context with its last result.
 */
#include "u_tell.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>
#include <stdio.h>

enum { PRODUCTS = 2600, SKUS = 8192, ORDERS = 700, LINES = 400 };

static xmlDocPtr catalogue, orders;
static xmlNodePtr by_sku[SKUS];
static xmlXPathContextPtr xpath; /* of the catalogue */
static xmlXPathObjectPtr found;  /* of the last query */
static struct {
    char *line[LINES];
    unsigned next;
} written;
static unsigned made, order_number, order_count;

static xmlNodePtr first_element(xmlNodePtr n)
{
    n = n->children;
    while (n && n->type != XML_ELEMENT_NODE)
        n = n->next;
    return n;
}

/* --- the catalogue ------------------------------------------------------------------ */

static size_t put_product(char *at, size_t room, unsigned sku)
{
    static const char *const colours[] = {"red", "green", "anthracite with a touch of blue"};
    size_t n = (size_t)snprintf(at, room,
                                "<product sku=\"%u\" colour=\"%s\">\n  <name>Item %u %.*s</name>\n"
                                "  <price currency=\"EUR\">%lu.%02lu</price>\n",
                                sku, colours[truth_random(3)], sku, (int)truth_random(50),
                                "of best quality, made by hand, with a long guarantee",
                                truth_random(500), truth_random(100));
    for (uint64_t i = truth_random(4); i > 0; i--)
        n += (size_t)snprintf(at + n, room - n, "  <tag>%s-%lu</tag>\n",
                              i & 1 ? "t" : "collection-of", truth_random(200));
    return n + (size_t)snprintf(at + n, room - n, "</product>\n");
}

static unsigned sku_of(xmlNodePtr product)
{
    xmlChar *text = xmlGetProp(product, BAD_CAST "sku");
    unsigned sku = text ? (unsigned)atoi((const char *)text) : 0;
    xmlFree(text);
    return sku;
}

static void forget_results(void)
{
    xmlXPathFreeObject(found);
    found = NULL;
}

static void load(void)
{
    size_t size = (size_t)PRODUCTS * 700, n = 0;
    char *text = malloc(size);
    forget_results();
    xmlXPathFreeContext(xpath);
    if (catalogue)
        xmlFreeDoc(catalogue);
    memset(by_sku, 0, sizeof by_sku);
    n += (size_t)snprintf(text, size, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<catalogue>\n");
    for (unsigned i = 0; i < PRODUCTS; i++)
        n += put_product(text + n, size - n, made++ % SKUS);
    n += (size_t)snprintf(text + n, size - n, "</catalogue>\n");
    catalogue = xmlReadMemory(text, (int)n, "catalogue.xml", NULL,
                              XML_PARSE_NOBLANKS | XML_PARSE_COMPACT | XML_PARSE_NONET);
    free(text);
    if (!catalogue)
        abort();
    xmlNodePtr root = xmlDocGetRootElement(catalogue);
    for (xmlNodePtr p = first_element(root); p; p = xmlNextElementSibling(p))
        by_sku[sku_of(p)] = p;
    xpath = xmlXPathNewContext(catalogue);
}

static xmlNodePtr any_product(void)
{
    return by_sku[truth_random(SKUS)];
}

static void add_product(void)
{
    unsigned sku = made++ % SKUS;
    if (by_sku[sku])
        return;
    char text[1000];
    xmlNodePtr root = xmlDocGetRootElement(catalogue), p;
    snprintf(text, sizeof text, "%u", sku);
    p = xmlNewChild(root, NULL, BAD_CAST "product", NULL);
    xmlNewProp(p, BAD_CAST "sku", BAD_CAST text);
    snprintf(text, sizeof text, "New item %u, not seen before", sku);
    xmlNewTextChild(p, NULL, BAD_CAST "name", BAD_CAST text);
    xmlNewTextChild(p, NULL, BAD_CAST "price", BAD_CAST "12.50");
    by_sku[sku] = p;
}

static void remove_product(xmlNodePtr p)
{
    if (found)
        forget_results();
    by_sku[sku_of(p)] = NULL;
    xmlUnlinkNode(p);
    xmlFreeNode(p);
}

static void change(xmlNodePtr p, int i)
{
    char text[120];
    xmlNodePtr name = first_element(p);
    if (i % 3 == 0) {
        snprintf(text, sizeof text, "changed %d", i);
        xmlSetProp(p, BAD_CAST(i % 2 ? "changed" : "colour"), BAD_CAST text);
    } else if (i % 3 == 1) {
        snprintf(text, sizeof text, "%d.%02d", i % 300, i % 100);
        if (!found && name && name->next)
            xmlNodeSetContent(name->next, BAD_CAST text);
    } else if (!found && name) {
        snprintf(text, sizeof text, "Item renamed in step %d, for no reason", i);
        xmlNodeSetContent(name, BAD_CAST text);
    }
}

static void move_product(xmlNodePtr p, xmlNodePtr before)
{
    if (!before || p == before)
        return;
    xmlUnlinkNode(p);
    xmlAddPrevSibling(before, p);
}

static void query(void)
{
    char text[80];
    forget_results();
    snprintf(text, sizeof text, "/catalogue/product[position()<%lu]/name", 10 + truth_random(300));
    found = xmlXPathEvalExpression(BAD_CAST text, xpath);
}

/* --- orders ------------------------------------------------------------------------- */

static xmlNodePtr any_order(void)
{
    xmlNodePtr o = xmlDocGetRootElement(orders)->children;
    for (uint64_t i = truth_random(order_count ? order_count : 1); o && i > 0; i--)
        o = o->next;
    return o;
}

static void new_order(void)
{
    char text[60];
    xmlNodePtr o = xmlNewChild(xmlDocGetRootElement(orders), NULL, BAD_CAST "order", NULL);
    snprintf(text, sizeof text, "%u", order_number++);
    xmlNewProp(o, BAD_CAST "number", BAD_CAST text);
    snprintf(text, sizeof text, "customer %lu of the shop in the street", truth_random(5000));
    xmlNewTextChild(o, NULL, BAD_CAST "customer", BAD_CAST text);
    order_count++;
    if (order_count > ORDERS) {
        xmlNodePtr old = xmlDocGetRootElement(orders)->children;
        xmlUnlinkNode(old);
        xmlFreeNode(old);
        order_count--;
    }
}

static void order(xmlNodePtr product)
{
    xmlNodePtr o = any_order();
    if (!o || xmlChildElementCount(o) > 8)
        return;
    xmlAddChild(o, xmlDocCopyNode(product, orders, 1));
}

static void write_line(xmlNodePtr n)
{
    xmlBufferPtr buffer = xmlBufferCreate();
    xmlNodeDump(buffer, n->doc, n, 0, 0);
    char **at = &written.line[written.next++ % LINES];
    free(*at);
    *at = strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
}

static void churn(void)
{
    orders = xmlNewDoc(BAD_CAST "1.0");
    xmlDocSetRootElement(orders, xmlNewNode(NULL, BAD_CAST "orders"));
    load();
    for (int i = 0; i < 300000; i++) {
        uint64_t what = truth_random(1000);
        xmlNodePtr p = any_product();
        if (i % 90000 == 89999)
            load();
        else if (what < 50)
            add_product();
        else if (!p)
            continue;
        else if (what < 90)
            remove_product(p);
        else if (what < 400)
            change(p, i);
        else if (what < 500)
            move_product(p, any_product());
        else if (what < 520)
            new_order();
        else if (what < 560)
            order(p);
        else if (what < 563)
            query();
        else if (what < 570)
            forget_results();
        else if (what < 600)
            write_line(p);
        else
            sku_of(p);
    }
    query();
}

/* --- truth -------------------------------------------------------------------------- */

/* Names are in the dictionary, allocated, or static within the library. */
static void tell_name(const struct tell_as *t, xmlDocPtr doc, const xmlChar *const *name,
                      bool constant)
{
    if (!*name || constant)
        return;
    if (!doc->dict || !xmlDictOwns(doc->dict, *name))
        tell_block(t, *name);
    tell_word(t, name);
}

static void tell_nodes(const struct tell_as *t, xmlDocPtr doc, xmlNodePtr first);

static void tell_node(const struct tell_as *t, xmlDocPtr doc, xmlNodePtr n)
{
    tell_block(t, n);
    tell_word(t, &n->children);
    tell_word(t, &n->last);
    tell_word(t, &n->parent);
    tell_word(t, &n->next);
    tell_word(t, &n->prev);
    tell_word(t, &n->doc);
    tell_name(t, doc, &n->name, n->type == XML_TEXT_NODE);
    if (n->type == XML_TEXT_NODE) {
        if (n->content == (xmlChar *)&n->properties)
            tell_word(t, &n->content);
        else
            tell_name(t, doc, (const xmlChar *const *)&n->content, false);
    } else if (n->type == XML_ELEMENT_NODE) {
        tell_word(t, &n->properties);
        tell_nodes(t, doc, (xmlNodePtr)n->properties);
        tell_nodes(t, doc, n->children);
    } else if (n->type == XML_ATTRIBUTE_NODE) {
        tell_nodes(t, doc, n->children);
    }
    tell_words(t, n);
}

static void tell_nodes(const struct tell_as *t, xmlDocPtr doc, xmlNodePtr first)
{
    for (xmlNodePtr n = first; n; n = n->next)
        tell_node(t, doc, n);
}

/* As in libxml2 2.9; told only where the fields fit. */
struct dict_entry {
    struct dict_entry *next;
    const xmlChar *name;
    unsigned length;
    int valid;
    unsigned long key;
};
struct dict_strings {
    struct dict_strings *next;
    xmlChar *free, *end;
    size_t size, count;
    xmlChar text[1];
};
struct dict {
    int uses;
    struct dict_entry *entries;
    size_t size;
    unsigned count;
    struct dict_strings *strings;
    struct dict *below;
};

static void tell_dict(const struct tell_as *t, xmlDictPtr dict)
{
    const struct dict *d = (const struct dict *)dict;
    tell_block(t, d);
    if (LIBXML_VERSION / 100 != 209 || d->count != (unsigned)xmlDictSize(dict) || d->below)
        return;
    tell_block(t, d->entries);
    tell_word(t, &d->entries);
    tell_word(t, &d->strings);
    tell_words(t, d);
    for (size_t i = 0; i < d->size; i++) {
        const struct dict_entry *e = &d->entries[i];
        if (!e->valid)
            continue;
        tell_word(t, &e->name);
        tell_word(t, &e->next);
        for (e = e->next; e; e = e->next) {
            tell_block(t, e);
            tell_word(t, &e->name);
            tell_word(t, &e->next);
            tell_words(t, e);
        }
    }
    tell_words(t, d->entries);
    for (const struct dict_strings *s = d->strings; s; s = s->next) {
        tell_block(t, s);
        tell_word(t, &s->next);
        if (s->free < s->end)
            tell_word(t, &s->free);
    }
}

static void tell_doc(const struct tell_as *t, xmlDocPtr doc)
{
    tell_block(t, doc);
    tell_word(t, &doc->children);
    tell_word(t, &doc->last);
    tell_word(t, &doc->doc);
    tell_word(t, &doc->dict);
    tell_word(t, &doc->oldNs);
    tell_block(t, doc->oldNs);
    tell_name(t, doc, &doc->version, false);
    tell_name(t, doc, &doc->encoding, false);
    tell_name(t, doc, &doc->URL, false);
    tell_words(t, doc);
    if (doc->dict)
        tell_dict(t, doc->dict);
    tell_nodes(t, doc, doc->children);
}

static void tell(void *of)
{
    (void)of;
    TELL_ROOT(catalogue);
    TELL_ROOT(orders);
    TELL_ROOT(by_sku);
    TELL_ROOT(xpath);
    TELL_ROOT(found);
    TELL_ROOT(written);

    struct tell_as t = {"catalogue", true, true};
    tell_word(&t, &catalogue);
    tell_doc(&t, catalogue);

    t = (struct tell_as){"orders", true, true};
    tell_word(&t, &orders);
    tell_doc(&t, orders);

    /* Each node leads to its document. */
    t = (struct tell_as){"by_sku", true, true};
    for (size_t i = 0; i < SKUS; i++)
        tell_word(&t, &by_sku[i]);
    t.own = t.words = false;
    tell_doc(&t, catalogue);

    t = (struct tell_as){"xpath", true, true};
    tell_word(&t, &xpath);
    tell_block(&t, xpath);
    tell_word(&t, &xpath->doc);
    tell_word(&t, &xpath->node);
    tell_word(&t, &xpath->funcHash);
    tell_block(&t, xpath->funcHash);
    t.own = t.words = false;
    tell_doc(&t, catalogue);

    if (found && found->nodesetval && found->nodesetval->nodeNr > 0) {
        t = (struct tell_as){"found", true, true};
        tell_word(&t, &found);
        tell_block(&t, found);
        tell_word(&t, &found->nodesetval);
        tell_words(&t, found);
        tell_block(&t, found->nodesetval);
        tell_word(&t, &found->nodesetval->nodeTab);
        tell_words(&t, found->nodesetval);
        tell_block(&t, found->nodesetval->nodeTab);
        for (int i = 0; i < found->nodesetval->nodeNr; i++)
            tell_word(&t, &found->nodesetval->nodeTab[i]);
        tell_words(&t, found->nodesetval->nodeTab);
        t.own = t.words = false;
        tell_doc(&t, catalogue);
    }

    t = (struct tell_as){"written", true, true};
    for (size_t i = 0; i < LINES; i++) {
        tell_word(&t, &written.line[i]);
        tell_block(&t, written.line[i]);
    }
}

int main(int argc, char **argv)
{
    churn();
    truth_rest(argc, argv, tell, NULL);
    return 0;
}
