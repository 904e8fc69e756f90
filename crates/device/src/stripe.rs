//! RAID 0: which part of a request is on which member.

/// A part of a request: contiguous on its member, though its chunks are apart in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub member: usize,
    pub offset: u64,
    pub length: u64,
}

/// The parts of `length` bytes, at least one, at `offset`: at most one a member, in the array's
/// order.
pub fn parts(stripes: u64, chunk: u64, offset: u64, length: u64) -> impl Iterator<Item = Part> {
    let (first, last) = (offset / chunk, (offset + (length - 1)) / chunk);
    let until = (last + 1).min(first + stripes);
    (first..until).map(move |index| {
        let final_index = index + (last - index) / stripes * stripes;
        let begin = index / stripes * chunk + if index == first { offset % chunk } else { 0 };
        let tail = if final_index == last {
            (offset + length - 1) % chunk + 1
        } else {
            chunk
        };
        let end = final_index / stripes * chunk + tail;
        Part {
            member: (index % stripes) as usize,
            offset: begin,
            length: end - begin,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_spans_its_members_once_each() {
        let found: Vec<Part> = parts(2, 64, 32, 128).collect();
        let expected = [
            Part {
                member: 0,
                offset: 32,
                length: 32 + 32,
            },
            Part {
                member: 1,
                offset: 0,
                length: 64,
            },
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn parts_are_the_request_byte_by_byte(
            stripes in 1u64..6, chunk in 1u64..9, offset in 0u64..200, length in 1u64..100
        ) {
            let mut expected: Vec<(usize, u64)> = (offset..offset + length)
                .map(|byte| {
                    let index = byte / chunk;
                    ((index % stripes) as usize, index / stripes * chunk + byte % chunk)
                })
                .collect();
            let mut found: Vec<(usize, u64)> = parts(stripes, chunk, offset, length)
                .flat_map(|part| {
                    (part.offset..part.offset + part.length).map(move |byte| (part.member, byte))
                })
                .collect();
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
