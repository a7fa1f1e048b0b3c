/* A plugin for QEMU that counts exactly: the instructions from each arrival at `entry` up to the next instruction between
 * `low` and `high`, where the caller is. One number a line in the file `out`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* The part of QEMU's plugin interface (version 1) that is needed; Debian does not ship qemu-plugin.h. */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb; struct qemu_plugin_insn;
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*cb)(unsigned int, void *), int flags, void *udata);

static uint64_t entry, low, high, count;
static int inside;
static FILE *out;

static void run(unsigned int cpu, void *data)
{
    const uint64_t at = (uint64_t)(uintptr_t)data;
    (void)cpu;
    if (at == entry) { inside = 1; count = 0; }
    if (inside && at >= low && at < high) {
        inside = 0;
        fprintf(out, "%llu\n", (unsigned long long)count);
        fflush(out);
    }
    count += (uint64_t)inside;
}
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); ++i) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, run, 0, (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
    }
}
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; ++i) {
        if (!strncmp(argv[i], "entry=", 6)) entry = strtoull(argv[i] + 6, NULL, 0);
        if (!strncmp(argv[i], "low=", 4)) low = strtoull(argv[i] + 4, NULL, 0);
        if (!strncmp(argv[i], "high=", 5)) high = strtoull(argv[i] + 5, NULL, 0);
        if (!strncmp(argv[i], "out=", 4)) out = fopen(argv[i] + 4, "w");
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return out == NULL;
}
