"""What a generated model costs: instructions (qemu), bytes of flash and RAM (elf), bytes of stack (stack)."""
