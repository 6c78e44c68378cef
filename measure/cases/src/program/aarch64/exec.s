// The program of the exec measurements; `x86_64/exec.s` says how two of them take turns.
//
// x26 the arguments (argc first), x21 the counter's text, x27 the path of the other.
.set ARGC, 0
.set ARGV_SELF, 8
.set ARGV_COUNTER, 16
.set ARGV_TOUCH, 24
.set ARGV_OTHER, 32
.set ARGV_AFTER, 8 + 8                  // past argc and argv's closing null
.set COUNTER_DIGITS, 10
.set NOTEBOOK, 2
.set DIGIT_ZERO, 48
.set DIGIT_NINE, 57

kumiki_program_exec:
    mov     x26, sp
    sub     sp, sp, #FRAME_BYTES
    mov     x19, sp
    ldr     x21, [x26, #ARGV_COUNTER]

    ldr     x0, [x26, #ARGV_TOUCH]
    ldrb    w2, [x0]
    sub     w2, w2, #DIGIT_ZERO
    adr     x9, .Lregion
    ldp     x0, x1, [x9]
    bl      .Ltouch

    // Counter minus one, digit by digit; a borrow out of the first digit says
    // that it was zero.
.Lexec_count:
    add     x0, x21, #(COUNTER_DIGITS - 1)
1:  ldrb    w1, [x0]
    sub     w1, w1, #1
    strb    w1, [x0]
    cmp     w1, #DIGIT_ZERO
    b.hs    .Lexec_other
    mov     w1, #DIGIT_NINE
    strb    w1, [x0]
    sub     x0, x0, #1
    cmp     x0, x21
    b.hs    1b

    take_clock ANSWER_END
    take_usage ANSWER_END
    die_with_parent
    ordinary_pages
    str     xzr, [x19, #ANSWER_DONE]
    str     xzr, [x19, #ANSWER_AT]
    str     xzr, [x19, #ANSWER_ERROR]
    mov     x0, #NOTEBOOK
    add     x1, x19, #ANSWER_START
    mov     x2, #STAMP_BYTES
    mov     x3, #0
    must    SYS_pread64
    bl      .Lanswer

    mov     x1, x21
    mov     x2, #COUNTER_DIGITS
    bl      .Lreceive
    take_usage ANSWER_START
    take_clock ANSWER_START
    mov     x0, #NOTEBOOK
    add     x1, x19, #ANSWER_START
    mov     x2, #STAMP_BYTES
    mov     x3, #0
    must    SYS_pwrite64
    b       .Lexec_count

    // Becomes the other. Its file may still be open for writing in a child of
    // the harness that has not reached its own exec: that passes.
.Lexec_other:
    ldr     x0, [x26, #ARGV_SELF]
    ldr     x27, [x26, #ARGV_OTHER]
    str     x27, [x26, #ARGV_SELF]
    str     x0, [x26, #ARGV_OTHER]
    add     x1, x26, #ARGV_SELF
    ldr     x2, [x26, #ARGC]
    add     x2, x26, x2, lsl #3
    add     x2, x2, #ARGV_AFTER
2:  mov     x0, x27
    system_call SYS_execve
    cmn     x0, #ETXTBSY
    b.eq    2b
    str     xzr, [x19, #ANSWER_DONE]
    mov     x1, #SYS_execve
    b       .Lfail

// The writer of the file appends where the data and bss are, and how large.
    .balign 8
.Lregion:
kumiki_program_end:
.text
