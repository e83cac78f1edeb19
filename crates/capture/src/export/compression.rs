//! Packs files: what a name's end asks for.

use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Level of gzip and xz: traces are long.
const LEVEL: u32 = 3;
/// Level of zstd.
const ZSTD_LEVEL: i32 = 3;
/// Bytes per write.
const PIECE_BYTES: usize = 1 << 18;

/// Where a file goes.
pub type Out = Box<dyn Packing>;

/// A file, packed or not.
pub trait Packing: Write + Send {
    /// Writes the rest.
    ///
    /// # Errors
    /// Errors of writing.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Packs what is written to `out` as the end of `name` asks for: `.gz`, `.zst` or `.xz`; other names pack nothing.
///
/// # Errors
/// If the library of a format cannot begin.
pub fn packed(name: &Path, out: Box<dyn Write + Send>) -> io::Result<Out> {
    let out = BufWriter::with_capacity(PIECE_BYTES, out);
    Ok(match name.extension().and_then(|end| end.to_str()) {
        Some("gz") => Box::new(Gzip(GzEncoder::new(out, flate2::Compression::new(LEVEL)))),
        Some("zst") => Box::new(Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?)),
        Some("xz") => Box::new(Xz(XzEncoder::new(out, LEVEL))),
        _ => Box::new(Plain(out)),
    })
}

type Inner = BufWriter<Box<dyn Write + Send>>;

struct Plain(Inner);
struct Gzip(GzEncoder<Inner>);
struct Zstd(zstd::Encoder<'static, Inner>);
struct Xz(XzEncoder<Inner>);

macro_rules! packing {
    ($($packing:ty: $finish:expr),*) => { $(
        impl Write for $packing {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.0.flush()
            }
        }

        impl Packing for $packing {
            fn finish(self: Box<Self>) -> io::Result<()> {
                let finish: fn($packing) -> io::Result<Inner> = $finish;
                finish(*self)?.flush()
            }
        }
    )* };
}
packing!(
    Plain: |packing| Ok(packing.0),
    Gzip: |packing| packing.0.finish(),
    Zstd: |packing| packing.0.finish(),
    Xz: |packing| packing.0.finish()
);
