//! A class of Java, written down by hand: a machine that runs Java need not have
//! its compiler.

/// `public class Ends { public static void main(String[] arguments) {} }` for
/// Java 8 and later, in the class file format (Java Virtual Machine
/// Specification, chapter 4).
pub(super) fn ends() -> Vec<u8> {
    /// Indexes into the constant pool, which begins with 1.
    const THIS: u16 = 1;
    const SUPER: u16 = 3;
    const MAIN: u16 = 5;
    const ITS_TYPE: u16 = 6;
    const CODE: u16 = 7;
    const POOL: [Constant; 7] = [
        Constant::Class(2),
        Constant::Utf8("Ends"),
        Constant::Class(4),
        Constant::Utf8("java/lang/Object"),
        Constant::Utf8("main"),
        Constant::Utf8("([Ljava/lang/String;)V"),
        Constant::Utf8("Code"),
    ];
    const JAVA_8: u16 = 52;
    const PUBLIC: u16 = 0x0001;
    const STATIC: u16 = 0x0008;
    const TREAT_SUPER_SPECIALLY: u16 = 0x0020;
    const RETURN: u8 = 0xb1;

    let mut class = Class(0xcafe_babe_u32.to_be_bytes().to_vec());
    class.words(&[0, JAVA_8, POOL.len() as u16 + 1]);
    for constant in POOL {
        class.constant(constant);
    }
    // No interfaces, no fields, one method.
    class.words(&[PUBLIC | TREAT_SUPER_SPECIALLY, THIS, SUPER, 0, 0, 1]);
    // It has one attribute, the code: 13 bytes, no stack, one local variable, one
    // instruction, no exceptions, no attributes.
    class.words(&[PUBLIC | STATIC, MAIN, ITS_TYPE, 1, CODE, 0, 13, 0, 1, 0, 1]);
    class.0.push(RETURN);
    class.words(&[0, 0]);
    // Nor has the class.
    class.words(&[0]);
    class.0
}

#[derive(Clone, Copy)]
enum Constant {
    /// The name's index.
    Class(u16),
    Utf8(&'static str),
}

struct Class(Vec<u8>);

impl Class {
    fn words(&mut self, words: &[u16]) {
        self.0.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn constant(&mut self, constant: Constant) {
        match constant {
            Constant::Class(name) => {
                self.0.push(7);
                self.words(&[name]);
            }
            Constant::Utf8(text) => {
                self.0.push(1);
                self.words(&[text.len() as u16]);
                self.0.extend(text.as_bytes());
            }
        }
    }
}
