//! MongoDB's error codes: one table gives each code its number, its name and what it stands for.
//!
//! Drivers decide by the number, people read the name, SQL maps it to a SQLSTATE. MongoDB gives most errors of expressions,
//! accumulators and stages a number of their own: the second half of the table names the operator or stage, what is wrong with it,
//! and the general code ([`ErrorCode::general`]) that the same error has elsewhere. These numbers are those of MongoDB 8.0, found in
//! its source, at the place that the comment over each part names. Each of them is tried on a server, by the rows of
//! `treedb_server/tests/driver/compatibility/faults.toml`.

macro_rules! codes {
    (
        general { $($(#[$doc:meta])* $name:ident = $number:literal,)* }
        located { $($of:literal { $($at:ident = $location:literal, $general:ident, $what:literal;)* })* }
    ) => {
        /// MongoDB's error codes, as far as TreeDB uses them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name = $number,)*
            $($(#[doc = concat!("`", $of, "`: ", $what, ".")] $at = $location,)*)*
        }

        impl ErrorCode {
            /// Every code of the table, in order.
            pub const ALL: &'static [ErrorCode] =
                &[$(ErrorCode::$name,)* $($(ErrorCode::$at,)*)*];

            /// The code's name on the wire (`codeName`): `BadValue`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => stringify!($name),)*
                    $($(ErrorCode::$at => stringify!($at),)*)*
                }
            }

            /// The code of the kind of error that this one is: that of an expression or a stage stands for `BadValue`,
            /// `FailedToParse`, `TypeMismatch` or `Overflow` there, and others for themselves.
            pub const fn general(self) -> ErrorCode {
                match self {
                    $($(ErrorCode::$at => ErrorCode::$general,)*)*
                    other => other,
                }
            }
        }
    };
}

codes! {
    general {
        /// Something that should not happen, or that the disk refused.
        InternalError = 1,
        /// An operand or option has an impossible value.
        BadValue = 2,
        /// A failure without a better name.
        UnknownError = 8,
        /// The shape of a filter, update or command is wrong.
        FailedToParse = 9,
        /// The user does not exist.
        UserNotFound = 11,
        /// Not allowed for this user.
        Unauthorized = 13,
        /// A value has another type than is needed there.
        TypeMismatch = 14,
        /// A number does not fit.
        Overflow = 15,
        /// Something is too long or too short.
        InvalidLength = 16,
        /// The wire protocol was not followed.
        ProtocolError = 17,
        /// Wrong user or password.
        AuthenticationFailed = 18,
        /// Not possible on this kind of server or collection.
        IllegalOperation = 20,
        /// Bytes that should be BSON are not.
        InvalidBSON = 22,
        /// The collection does not exist.
        NamespaceNotFound = 26,
        /// The index does not exist.
        IndexNotFound = 27,
        /// The path of an update goes through a value that is neither a document nor an array.
        PathNotViable = 28,
        /// The role does not exist.
        RoleNotFound = 31,
        /// The role does not have that role or privilege.
        InvalidRoleModification = 35,
        /// Two updates of one statement touch the same path.
        ConflictingUpdateOperators = 40,
        /// The cursor does not exist: it was closed, it timed out, or it was never opened.
        CursorNotFound = 43,
        /// A requested pre-image or post-image of a document is not available.
        NoMatchingDocument = 47,
        /// The collection exists already.
        NamespaceExists = 48,
        /// The operation's own time limit has passed.
        MaxTimeMSExpired = 50,
        /// A field name may not start with `$` there.
        DollarPrefixedFieldName = 52,
        /// `_id` has a type it cannot have.
        InvalidIdField = 53,
        /// A path of an upsert's filter has more than one value.
        NotSingleValueField = 54,
        /// A path has an empty field name.
        EmptyFieldName = 56,
        /// A field name may not contain a dot there.
        DottedFieldName = 57,
        /// The command does not exist.
        CommandNotFound = 59,
        /// The write concern could not be met.
        WriteConcernFailed = 64,
        /// `_id` cannot be changed.
        ImmutableField = 66,
        /// The index cannot be created as specified.
        CannotCreateIndex = 67,
        /// The index exists already.
        IndexAlreadyExists = 68,
        /// An option does not exist, or cannot be combined with another option.
        InvalidOptions = 72,
        /// The name of a database or collection is not valid.
        InvalidNamespace = 73,
        /// An index of that key pattern exists with other options.
        IndexOptionsConflict = 85,
        /// An index of that name exists with other keys.
        IndexKeySpecsConflict = 86,
        /// The server is stopping.
        ShutdownInProgress = 91,
        /// Two transactions changed the same document: try again.
        WriteConflict = 112,
        /// Views would read each other in a circle.
        GraphContainsCycle = 5,
        /// The next documents of a tailable cursor have been deleted.
        CappedPositionLost = 136,
        /// The pipelines of a view and of those that it reads are too long.
        ViewPipelineMaxSizeExceeded = 164,
        /// Too many views read each other.
        ViewDepthLimitExceeded = 165,
        /// A view was named where a collection is needed.
        CommandNotSupportedOnView = 166,
        /// An option that views do not have.
        OptionNotSupportedOnView = 167,
        /// A document does not match the collection's validator.
        DocumentValidationFailure = 121,
        /// An option does not exist for this index.
        InvalidIndexSpecificationOption = 197,
        /// The collection that a cursor reads is gone.
        QueryPlanKilled = 175,
        /// More memory than allowed would be needed.
        ExceededMemoryLimit = 146,
        /// There is no expression operator of that name.
        InvalidPipelineOperator = 168,
        /// A document has arrays at two fields of one compound index.
        CannotIndexParallelArrays = 171,
        /// The number of a retried write belongs to a transaction.
        IncompleteTransactionHistory = 217,
        /// The session has already started a newer transaction or retryable write.
        TransactionTooOld = 225,
        /// The feature is not implemented.
        NotImplemented = 238,
        /// The requested point in time is older than the history.
        SnapshotTooOld = 239,
        /// The requested point in time is in the future or not in the history.
        SnapshotUnavailable = 246,
        /// The transaction does not exist.
        NoSuchTransaction = 251,
        /// The transaction has been committed: nothing more can be done in it.
        TransactionCommitted = 256,
        /// The changes of a transaction need more memory than allowed.
        TransactionTooLarge = 257,
        /// A change stream cannot resume from this position.
        InvalidResumeToken = 260,
        /// More sessions with transactions or retryable writes than allowed.
        TooManyLogicalSessions = 261,
        /// The operation is not possible in a transaction.
        OperationNotSupportedInTransaction = 263,
        /// A change stream cannot continue.
        ChangeStreamFatalError = 280,
        /// The changes that a change stream would resume with have been removed.
        ChangeStreamHistoryLost = 286,
        /// There is no authentication mechanism of that name.
        MechanismUnavailable = 334,
        /// A legacy wire operation that is no longer supported.
        UnsupportedOpQueryCommand = 352,
        /// A document is larger than 16 MiB.
        BSONObjectTooLarge = 10334,
        /// The values of a `distinct` take more than 16 MiB.
        Location17217 = 17217,
        /// A unique index has that key already.
        DuplicateKey = 11000,
        /// The operation was interrupted because the server is stopping.
        InterruptedAtShutdown = 11600,
        /// The operation was interrupted on request.
        Interrupted = 11601,
        /// The name of a database differs only in case from that of another.
        DatabaseDifferCase = 13297,
        /// The disk is full.
        OutOfDiskSpace = 14031,
        /// An index of the collection is being built.
        BackgroundOperationInProgressForNamespace = 12587,
        /// A key is too long to be indexed.
        KeyTooLong = 17280,
        /// A value in the field of a `2d` index is no pair of coordinates.
        Location13026 = 13026,
        /// A point is outside of the bounds of a `2d` index.
        Location13027 = 13027,
        /// `$near` with a distance needs GeoJSON.
        Location16681 = 16681,
        /// A value in the field of a `2dsphere` index is no location.
        Location16755 = 16755,
        /// `$minDistance` beside `$near` is not a number.
        Location16893 = 16893,
        /// `$minDistance` beside `$near` is negative.
        Location16894 = 16894,
        /// `$maxDistance` beside `$near` is not a number.
        Location16895 = 16895,
        /// `$maxDistance` beside `$near` is negative.
        Location16896 = 16896,
        /// `$minDistance` within `$near` is not a number.
        Location16897 = 16897,
        /// `$minDistance` within `$near` is negative.
        Location16898 = 16898,
        /// `$maxDistance` within `$near` is not a number.
        Location16899 = 16899,
        /// `$maxDistance` within `$near` is negative.
        Location16900 = 16900,
        /// `$near` is not allowed here.
        Location5626500 = 5_626_500,
        /// A document has too many keys in an index.
        CannotBuildIndexKeys = 201,
        /// A hashed index cannot be unique.
        Location16764 = 16764,
        /// A field of a hashed index contains an array.
        Location16766 = 16766,
        /// An index has two hashed fields.
        Location31303 = 31303,
        /// A hint names an index that cannot answer the query.
        NoQueryExecutionPlans = 291,
        /// An index was dropped while it was being built.
        IndexBuildAborted = 276,
        /// A sort would need more memory than allowed.
        QueryExceededMemoryLimitNoDiskUseAllowed = 292,
        /// A value cannot be converted to the requested type.
        ConversionFailure = 241,
        /// A role of that name exists already.
        Location51002 = 51002,
        /// A user of that name exists already.
        Location51003 = 51003,
        /// No document exists that a document of `$merge` could be merged with.
        MergeStageNoMatchingDocument = 13113,
        /// Pipelines are nested too deeply.
        MaxSubPipelineDepthExceeded = 232,
        /// A `path.$` of a projection is neither 0 nor 1.
        Location31271 = 31271,
        /// An operator of a projection does not exist.
        Location31325 = 31325,
        /// Bounds without an index to which they apply.
        Location51173 = 51173,
        /// Bounds that do not fit the index.
        Location51174 = 51174,
        /// The upper bound is not above the lower one.
        Location51175 = 51175,
        /// The bounds have different fields.
        Location51176 = 51176,
        /// An `$elemMatch` projection is on a nested field.
        Location31255 = 31255,
        /// A projection has more than one `path.$`.
        Location31276 = 31276,
        /// A path of a projection has a `$` that is not at the end.
        Location31394 = 31394,
        /// An exclusion projection has a `path.$`.
        Location31395 = 31395,
        /// A required field is missing.
        Location40414 = 40414,
        /// A command has an unknown argument.
        Location40415 = 40415,
        /// The options of a regular expression are given twice.
        Location51075 = 51075,
        /// A regular expression is invalid.
        Location51091 = 51091,
        /// The query did not match an array element for a `path.$`.
        Location51246 = 51246,
        /// The match of a regular expression was given up.
        Location51156 = 51156,
        /// A regular expression has an option that does not exist.
        Location51108 = 51108,
    }
    located {
        // Paths, variables and documents of expressions (MongoDB: FieldPath, ExpressionFieldPath, ExpressionObject,
        // Expression::parseExpression).
        "expressions" {
            Location15983 = 15983, FailedToParse, "a document with an operator has other fields";
            Location15998 = 15998, FailedToParse, "a path has an empty field name";
            Location16406 = 16406, FailedToParse, "a document expression has a field twice";
            Location16410 = 16410, FailedToParse, "a field name of a path or of a document expression begins with `$`";
            Location16411 = 16411, FailedToParse, "a path has a zero byte";
            Location16412 = 16412, FailedToParse, "a field name of a document expression has a dot";
            Location16872 = 16872, FailedToParse, "a path is only a `$`";
            Location17276 = 17276, FailedToParse, "a variable is not defined";
            Location40352 = 40352, FailedToParse, "a path is empty";
            Location40353 = 40353, FailedToParse, "a path ends in a dot";
            Location16020 = 16020, FailedToParse, "an operator has too many or too few operands";
            Location28667 = 28667, FailedToParse, "an operator has more or fewer operands than its range allows";
            Location50723 = 50723, FailedToParse, "a conversion has more or fewer operands than one";
            Location16006 = 16006, TypeMismatch, "a value cannot be read as a date";
            Location16007 = 16007, TypeMismatch, "a value cannot be read as a string";
            Location28765 = 28765, TypeMismatch, "an operand of arithmetic is not a number";
        }
        // Arithmetic (MongoDB: ExpressionAdd and the others of its evaluate_math.cpp). $add, $subtract, $multiply, $divide,
        // $bitAnd, $bitOr
        // and $bitXor answer TypeMismatch there, and $divide BadValue for a divisor of zero.
        "$abs" {
            Location28680 = 28680, Overflow, "the smallest 64-bit integer has no absolute value";
        }
        "$add" {
            Location16612 = 16612, BadValue, "more than one operand is a date";
        }
        "$mod" {
            Location16610 = 16610, BadValue, "the divisor is zero";
            Location16611 = 16611, TypeMismatch, "an operand is not a number";
            Location5733415 = 5_733_415, BadValue, "the divisor is a decimal zero";
        }
        "$round and $trunc" {
            Location51080 = 51080, Overflow, "the result does not fit";
            Location51081 = 51081, TypeMismatch, "the first operand is not a number";
            Location51082 = 51082, TypeMismatch, "the place is not a whole number";
            Location51083 = 51083, BadValue, "the place is not from -20 to 100";
        }
        "$sqrt" {
            Location28714 = 28714, BadValue, "the operand is negative";
        }
        "$log" {
            Location28756 = 28756, TypeMismatch, "the operand is not a number";
            Location28757 = 28757, TypeMismatch, "the base is not a number";
            Location28758 = 28758, BadValue, "the operand is not positive";
            Location28759 = 28759, BadValue, "the base is not positive, or 1";
        }
        "$log10" {
            Location28761 = 28761, BadValue, "the operand is not positive";
        }
        "$ln" {
            Location28766 = 28766, BadValue, "the operand is not positive";
        }
        "$pow" {
            Location28762 = 28762, TypeMismatch, "the base is not a number";
            Location28763 = 28763, TypeMismatch, "the exponent is not a number";
            Location28764 = 28764, BadValue, "the base is 0 and the exponent negative";
        }
        "trigonometric operators" {
            Location50989 = 50989, BadValue, "the operand is out of the operator's domain";
        }
        "$atan2" {
            Location51044 = 51044, TypeMismatch, "the first operand is not a number";
            Location51045 = 51045, TypeMismatch, "the second operand is not a number";
        }
        "$rand" {
            Location3040501 = 3_040_501, FailedToParse, "it has an operand";
        }
        // Strings (MongoDB: evaluate_string.cpp, evaluate_regex.cpp and the parsers of expression.cpp).
        "$concat" {
            Location16702 = 16702, TypeMismatch, "an operand is not a string";
        }
        "$strLenCP" {
            Location34471 = 34471, TypeMismatch, "the operand is not a string";
        }
        "$strLenBytes" {
            Location34473 = 34473, TypeMismatch, "the operand is not a string";
        }
        "$binarySize" {
            Location51276 = 51276, TypeMismatch, "the operand is neither a string nor binary data";
        }
        "$bsonSize" {
            Location31393 = 31393, TypeMismatch, "the operand is not a document";
        }
        "$substrBytes" {
            Location16034 = 16034, TypeMismatch, "the start is not a number";
            Location16035 = 16035, TypeMismatch, "the length is not a number";
            Location50752 = 50752, BadValue, "the start is negative";
            Location28656 = 28656, BadValue, "the start is within a character";
            Location28657 = 28657, BadValue, "the end is within a character";
        }
        "$substrCP" {
            Location34450 = 34450, TypeMismatch, "the start is not a number";
            Location34451 = 34451, TypeMismatch, "the start is not a 32-bit integer";
            Location34452 = 34452, TypeMismatch, "the length is not a number";
            Location34453 = 34453, TypeMismatch, "the length is not a 32-bit integer";
            Location34454 = 34454, BadValue, "the length is negative";
            Location34455 = 34455, BadValue, "the start is negative";
        }
        "$indexOfBytes" {
            Location40091 = 40091, TypeMismatch, "the first operand is not a string";
            Location40092 = 40092, TypeMismatch, "the second operand is not a string";
        }
        "$indexOfCP" {
            Location40093 = 40093, TypeMismatch, "the first operand is not a string";
            Location40094 = 40094, TypeMismatch, "the second operand is not a string";
        }
        "$indexOfBytes, $indexOfCP and $indexOfArray" {
            Location40096 = 40096, TypeMismatch, "the start or the end is not a 32-bit integer";
            Location40097 = 40097, BadValue, "the start or the end is negative";
        }
        "$split" {
            Location40085 = 40085, TypeMismatch, "the first operand is not a string";
            Location40086 = 40086, TypeMismatch, "the separator is not a string";
            Location40087 = 40087, BadValue, "the separator is empty";
        }
        "$trim, $ltrim and $rtrim" {
            Location50694 = 50694, FailedToParse, "an argument does not exist";
            Location50695 = 50695, FailedToParse, "`input` is missing";
            Location50696 = 50696, FailedToParse, "the operand is not a document";
            Location50699 = 50699, TypeMismatch, "`input` is not a string";
            Location50700 = 50700, TypeMismatch, "`chars` is not a string";
        }
        "$replaceOne and $replaceAll" {
            Location51744 = 51744, TypeMismatch, "`replacement` is not a string";
            Location51745 = 51745, TypeMismatch, "`find` is not a string";
            Location51746 = 51746, TypeMismatch, "`input` is not a string";
            Location51747 = 51747, FailedToParse, "`replacement` is missing";
            Location51748 = 51748, FailedToParse, "`find` is missing";
            Location51749 = 51749, FailedToParse, "`input` is missing";
            Location51750 = 51750, FailedToParse, "an argument does not exist";
            Location51751 = 51751, FailedToParse, "the operand is not a document";
        }
        "$regexMatch, $regexFind and $regexFindAll" {
            Location31022 = 31022, FailedToParse, "`input` is missing";
            Location31023 = 31023, FailedToParse, "`regex` is missing";
            Location31024 = 31024, FailedToParse, "an argument does not exist";
            Location51103 = 51103, FailedToParse, "the operand is not a document";
            Location51104 = 51104, TypeMismatch, "`input` is not a string";
            Location51105 = 51105, TypeMismatch, "`regex` is neither a string nor a regular expression";
            Location51106 = 51106, TypeMismatch, "`options` is not a string";
            Location51107 = 51107, BadValue, "the options are given twice";
            Location51111 = 51111, BadValue, "the regular expression is not valid";
        }
        // Arrays and sets (MongoDB: evaluate_array.cpp).
        "$arrayElemAt, $first and $last" {
            Location28689 = 28689, TypeMismatch, "the operand is not an array";
        }
        "$arrayElemAt" {
            Location28690 = 28690, TypeMismatch, "the index is not a number";
            Location28691 = 28691, TypeMismatch, "the index is not a 32-bit integer";
        }
        "$concatArrays" {
            Location28664 = 28664, TypeMismatch, "an operand is not an array";
        }
        "$size" {
            Location17124 = 17124, TypeMismatch, "the operand is not an array";
        }
        "$in" {
            Location40081 = 40081, TypeMismatch, "the second operand is not an array";
        }
        "$slice" {
            Location28724 = 28724, TypeMismatch, "the first operand is not an array";
            Location28725 = 28725, TypeMismatch, "the second operand is not a number";
            Location28726 = 28726, TypeMismatch, "the second operand is not a 32-bit integer";
            Location28727 = 28727, TypeMismatch, "the third operand is not a number";
            Location28728 = 28728, TypeMismatch, "the third operand is not a 32-bit integer";
            Location28729 = 28729, BadValue, "the third operand is not positive";
        }
        "$indexOfArray" {
            Location40090 = 40090, TypeMismatch, "the first operand is not an array";
        }
        "$range" {
            Location34443 = 34443, TypeMismatch, "the start is not a number";
            Location34444 = 34444, TypeMismatch, "the start is not a 32-bit integer";
            Location34445 = 34445, TypeMismatch, "the end is not a number";
            Location34446 = 34446, TypeMismatch, "the end is not a 32-bit integer";
            Location34447 = 34447, TypeMismatch, "the step is not a number";
            Location34448 = 34448, TypeMismatch, "the step is not a 32-bit integer";
            Location34449 = 34449, BadValue, "the step is 0";
        }
        "$reverseArray" {
            Location34435 = 34435, TypeMismatch, "the operand is not an array";
        }
        "$zip" {
            Location34460 = 34460, FailedToParse, "the operand is not a document";
            Location34461 = 34461, TypeMismatch, "`inputs` is not an array";
            Location34462 = 34462, TypeMismatch, "`defaults` is not an array";
            Location34463 = 34463, TypeMismatch, "`useLongestLength` is not a boolean";
            Location34464 = 34464, FailedToParse, "an argument does not exist";
            Location34465 = 34465, BadValue, "`inputs` is missing or empty";
            Location34466 = 34466, BadValue, "there are `defaults`, and `useLongestLength` is not true";
            Location34467 = 34467, BadValue, "there are not as many `defaults` as `inputs`";
            Location34468 = 34468, TypeMismatch, "one of `inputs` is not an array";
        }
        "$firstN and $lastN" {
            Location5787801 = 5_787_801, FailedToParse, "the operand is not a document";
        }
        "$minN and $maxN" {
            Location5787900 = 5_787_900, FailedToParse, "the operand is not a document";
        }
        "$firstN, $lastN, $minN and $maxN" {
            Location5787901 = 5_787_901, FailedToParse, "an argument does not exist";
            Location5787902 = 5_787_902, TypeMismatch, "`n` is not a number";
            Location5787903 = 5_787_903, TypeMismatch, "`n` is not a whole number";
            Location5787906 = 5_787_906, FailedToParse, "`n` is missing";
            Location5787907 = 5_787_907, FailedToParse, "`input` is missing";
            Location5787908 = 5_787_908, BadValue, "`n` is not positive";
            Location5788200 = 5_788_200, TypeMismatch, "`input` is not an array";
        }
        "$sortArray" {
            Location2942500 = 2_942_500, FailedToParse, "the operand is not a document";
            Location2942501 = 2_942_501, FailedToParse, "an argument does not exist";
            Location2942502 = 2_942_502, FailedToParse, "`input` is missing";
            Location2942503 = 2_942_503, FailedToParse, "`sortBy` is missing";
            Location2942504 = 2_942_504, TypeMismatch, "`input` is not an array";
            Location2942506 = 2_942_506, BadValue, "`sortBy` is a number other than 1 and -1";
        }
        "$percentile" {
            Location7436200 = 7_436_200, FailedToParse, "the operand of the expression is not a document";
            Location7429703 = 7_429_703, FailedToParse, "the operand of the accumulator is not a document";
            Location7750301 = 7_750_301, TypeMismatch, "`p` is not an array, or an empty one";
            Location7750302 = 7_750_302, TypeMismatch, "one of `p` is not a number";
            Location7750303 = 7_750_303, BadValue, "one of `p` is not from 0 to 1";
        }
        "$median" {
            Location7436201 = 7_436_201, FailedToParse, "the operand of the expression is not a document";
            Location7436100 = 7_436_100, FailedToParse, "the operand of the accumulator is not a document";
        }
        "$allElementsTrue" {
            Location17040 = 17040, TypeMismatch, "the operand is not an array";
        }
        "$anyElementTrue" {
            Location17041 = 17041, TypeMismatch, "the operand is not an array";
        }
        "$setIsSubset" {
            Location17042 = 17042, TypeMismatch, "the second operand is not an array";
            Location17046 = 17046, TypeMismatch, "the first operand is not an array";
        }
        "$setUnion" {
            Location17043 = 17043, TypeMismatch, "an operand is not an array";
        }
        "$setEquals" {
            Location17044 = 17044, TypeMismatch, "an operand is not an array";
            Location17045 = 17045, FailedToParse, "there are fewer than two operands";
        }
        "$setIntersection" {
            Location17047 = 17047, TypeMismatch, "an operand is not an array";
        }
        "$setDifference" {
            Location17048 = 17048, TypeMismatch, "the first operand is not an array";
            Location17049 = 17049, TypeMismatch, "the second operand is not an array";
        }
        // Documents (MongoDB: evaluate_bson.cpp, evaluate_array.cpp).
        "$mergeObjects" {
            Location40400 = 40400, TypeMismatch, "an operand is not a document";
        }
        "$objectToArray" {
            Location40390 = 40390, TypeMismatch, "the operand is not a document";
        }
        "$arrayToObject" {
            Location40386 = 40386, TypeMismatch, "the operand is not an array";
            Location40391 = 40391, TypeMismatch, "an element is not a document as the first is";
            Location40392 = 40392, BadValue, "a document has other fields than `k` and `v`";
            Location40393 = 40393, BadValue, "a document has no `k` or no `v`";
            Location40394 = 40394, TypeMismatch, "`k` is not a string";
            Location40395 = 40395, TypeMismatch, "the key of a pair is not a string";
            Location40396 = 40396, TypeMismatch, "an element is not an array as the first is";
            Location40397 = 40397, BadValue, "an array is not a pair";
            Location40398 = 40398, TypeMismatch, "the first element is neither an array nor a document";
            Location4940400 = 4_940_400, BadValue, "the key of a pair has a zero byte";
            Location4940401 = 4_940_401, BadValue, "`k` has a zero byte";
        }
        "$getField" {
            Location3041701 = 3_041_701, FailedToParse, "an argument does not exist";
            Location3041702 = 3_041_702, FailedToParse, "`field` is missing";
            Location3041703 = 3_041_703, FailedToParse, "`input` is missing";
            Location3041704 = 3_041_704, TypeMismatch, "`field` is not a string";
        }
        "$setField and $unsetField" {
            Location4161100 = 4_161_100, FailedToParse, "the operand is not a document";
            Location4161101 = 4_161_101, FailedToParse, "an argument does not exist";
            Location4161102 = 4_161_102, FailedToParse, "`field` is missing";
            Location4161103 = 4_161_103, FailedToParse, "`value` is missing";
            Location4161105 = 4_161_105, TypeMismatch, "`input` is not a document";
            Location4161107 = 4_161_107, TypeMismatch, "`field` is not a string";
            Location4161109 = 4_161_109, FailedToParse, "`input` is missing";
        }
        // Conditions and variables (MongoDB: the parsers of expression.cpp).
        "$cond" {
            Location17080 = 17080, FailedToParse, "`if` is missing";
            Location17081 = 17081, FailedToParse, "`then` is missing";
            Location17082 = 17082, FailedToParse, "`else` is missing";
            Location17083 = 17083, FailedToParse, "an argument does not exist";
        }
        "$ifNull" {
            Location1257300 = 1_257_300, FailedToParse, "there are fewer than two operands";
        }
        "$switch" {
            Location40060 = 40060, FailedToParse, "the operand is not a document";
            Location40061 = 40061, FailedToParse, "`branches` is not an array";
            Location40062 = 40062, FailedToParse, "a branch is not a document";
            Location40063 = 40063, FailedToParse, "an argument of a branch does not exist";
            Location40064 = 40064, FailedToParse, "a branch has no `case`";
            Location40065 = 40065, FailedToParse, "a branch has no `then`";
            Location40066 = 40066, BadValue, "no branch is true, and there is no default";
            Location40067 = 40067, FailedToParse, "an argument does not exist";
            Location40068 = 40068, FailedToParse, "there are no branches";
        }
        "$let" {
            Location16874 = 16874, FailedToParse, "the operand is not a document";
            Location16875 = 16875, FailedToParse, "an argument does not exist";
            Location16876 = 16876, FailedToParse, "`vars` is missing";
            Location16877 = 16877, FailedToParse, "`in` is missing";
        }
        "$map" {
            Location16878 = 16878, FailedToParse, "the operand is not a document";
            Location16879 = 16879, FailedToParse, "an argument does not exist";
            Location16880 = 16880, FailedToParse, "`input` is missing";
            Location16882 = 16882, FailedToParse, "`in` is missing";
            Location16883 = 16883, TypeMismatch, "`input` is not an array";
        }
        "$filter" {
            Location28646 = 28646, FailedToParse, "the operand is not a document";
            Location28647 = 28647, FailedToParse, "an argument does not exist";
            Location28648 = 28648, FailedToParse, "`input` is missing";
            Location28650 = 28650, FailedToParse, "`cond` is missing";
            Location28651 = 28651, TypeMismatch, "`input` is not an array";
            Location327391 = 327_391, TypeMismatch, "`limit` is not a 32-bit integer";
            Location327392 = 327_392, BadValue, "`limit` is not positive";
        }
        "$reduce" {
            Location40075 = 40075, FailedToParse, "the operand is not a document";
            Location40076 = 40076, FailedToParse, "an argument does not exist";
            Location40077 = 40077, FailedToParse, "`input` is missing";
            Location40078 = 40078, FailedToParse, "`initialValue` is missing";
            Location40079 = 40079, FailedToParse, "`in` is missing";
            Location40080 = 40080, TypeMismatch, "`input` is not an array";
        }
        // Dates (MongoDB: evaluate_date.cpp, date_time_support.cpp and the parsers of expression.cpp). An unknown unit is
        // FailedToParse there.
        "date operators" {
            Location40485 = 40485, BadValue, "the time zone does not exist";
            Location40517 = 40517, TypeMismatch, "`timezone` is not a string";
            Location5439013 = 5_439_013, TypeMismatch, "`unit` is not a string";
            Location5439015 = 5_439_015, TypeMismatch, "`startOfWeek` is not a string";
            Location5439016 = 5_439_016, BadValue, "`startOfWeek` is not a day";
            Location5166307 = 5_166_307, TypeMismatch, "a date is none";
        }
        "$year and the other parts of a date" {
            Location40535 = 40535, FailedToParse, "an argument does not exist";
            Location40536 = 40536, FailedToParse, "there is not exactly one operand";
            Location40539 = 40539, FailedToParse, "`date` is missing";
        }
        "$dateToString" {
            Location18533 = 18533, TypeMismatch, "`format` is not a string";
            Location18534 = 18534, FailedToParse, "an argument does not exist";
            Location18537 = 18537, BadValue, "the year is not from 0 to 9999";
            Location18628 = 18628, FailedToParse, "`date` is missing";
            Location18629 = 18629, FailedToParse, "the operand is not a document";
        }
        "$dateToString and $dateFromString" {
            Location18535 = 18535, BadValue, "`format` ends in a `%`";
            Location18536 = 18536, BadValue, "`format` has a specifier that does not exist";
        }
        "$dateFromString" {
            Location40540 = 40540, FailedToParse, "the operand is not a document";
            Location40541 = 40541, FailedToParse, "an argument does not exist";
            Location40542 = 40542, FailedToParse, "`dateString` is missing";
            Location40684 = 40684, TypeMismatch, "`format` is not a string";
        }
        "$dateToParts" {
            Location40520 = 40520, FailedToParse, "an argument does not exist";
            Location40521 = 40521, TypeMismatch, "`iso8601` is not a boolean";
            Location40522 = 40522, FailedToParse, "`date` is missing";
            Location40524 = 40524, FailedToParse, "the operand is not a document";
        }
        "$dateFromParts" {
            Location31034 = 31034, BadValue, "a part is out of its range";
            Location31095 = 31095, BadValue, "`isoWeekYear` is not from 1 to 9999";
            Location40489 = 40489, FailedToParse, "there are parts of a week date beside `year`";
            Location40515 = 40515, TypeMismatch, "a part is not a whole number";
            Location40516 = 40516, FailedToParse, "neither `year` nor `isoWeekYear` is given";
            Location40518 = 40518, FailedToParse, "an argument does not exist";
            Location40519 = 40519, FailedToParse, "the operand is not a document";
            Location40523 = 40523, BadValue, "`year` is not from 1 to 9999";
            Location40525 = 40525, FailedToParse, "there are parts of a calendar date beside `isoWeekYear`";
        }
        "$dateAdd and $dateSubtract" {
            Location5166400 = 5_166_400, FailedToParse, "the operand is not a document";
            Location5166401 = 5_166_401, FailedToParse, "an argument does not exist";
            Location5166402 = 5_166_402, FailedToParse, "an argument is missing";
            Location5166403 = 5_166_403, TypeMismatch, "`startDate` is not a date";
            Location5166405 = 5_166_405, TypeMismatch, "`amount` is not a whole number";
        }
        "$dateDiff" {
            Location5166301 = 5_166_301, FailedToParse, "the operand is not a document";
            Location5166302 = 5_166_302, FailedToParse, "an argument does not exist";
            Location5166303 = 5_166_303, FailedToParse, "`startDate` is missing";
            Location5166304 = 5_166_304, FailedToParse, "`endDate` is missing";
            Location5166305 = 5_166_305, FailedToParse, "`unit` is missing";
        }
        "$dateTrunc" {
            Location5439006 = 5_439_006, BadValue, "`binSize` is too large";
            Location5439007 = 5_439_007, FailedToParse, "the operand is not a document";
            Location5439008 = 5_439_008, FailedToParse, "an argument does not exist";
            Location5439009 = 5_439_009, FailedToParse, "`date` is missing";
            Location5439010 = 5_439_010, FailedToParse, "`unit` is missing";
            Location5439017 = 5_439_017, TypeMismatch, "`binSize` is not a whole number";
            Location5439018 = 5_439_018, BadValue, "`binSize` is not positive";
        }
        "$tsSecond" {
            Location5687301 = 5_687_301, TypeMismatch, "the operand is not a timestamp";
        }
        "$tsIncrement" {
            Location5687302 = 5_687_302, TypeMismatch, "the operand is not a timestamp";
        }
        // Conversions (MongoDB: ExpressionConvert). Arguments that are missing or do not exist are FailedToParse there.
        "$convert" {
            Location4341106 = 4_341_106, FailedToParse, "`subtype` is not an integer";
            Location4341107 = 4_341_107, FailedToParse, "`subtype` is not one of binary data";
            Location4341108 = 4_341_108, FailedToParse, "`subtype` is not a number";
            Location4341114 = 4_341_114, FailedToParse, "`format` is not a string";
            Location4341115 = 4_341_115, FailedToParse, "the conversion needs a `format`";
            Location4341125 = 4_341_125, FailedToParse, "the `format` does not exist";
            Location9130001 = 9_130_001, FailedToParse, "`byteOrder` is not a string";
            Location9130002 = 9_130_002, FailedToParse, "the `byteOrder` does not exist";
        }
        "$meta" {
            Location17307 = 17307, FailedToParse, "the operand is not a string";
            Location17308 = 17308, FailedToParse, "there is no metadata of this name";
            Location40218 = 40218, BadValue, "the documents have no such metadata";
        }
        // Accumulators (MongoDB: AccumulationStatement, AccumulatorTopBottomN).
        "accumulators" {
            Location15952 = 15952, FailedToParse, "there is no accumulator of that name";
            Location40234 = 40234, FailedToParse, "the value of a field is not an accumulator";
            Location40235 = 40235, FailedToParse, "a field name has a dot";
            Location40236 = 40236, FailedToParse, "a field name begins with `$`";
            Location40237 = 40237, FailedToParse, "an accumulator has more than one operand";
            Location40238 = 40238, FailedToParse, "a field has more than one accumulator";
        }
        "$top, $topN, $bottom and $bottomN" {
            Location5788001 = 5_788_001, FailedToParse, "the operand is not a document";
            Location5788002 = 5_788_002, FailedToParse, "an argument does not exist";
            Location5788003 = 5_788_003, FailedToParse, "`n` is missing";
            Location5788004 = 5_788_004, FailedToParse, "`output` is missing";
            Location5788005 = 5_788_005, FailedToParse, "`sortBy` is missing";
        }
        // Pipelines and stages (MongoDB: Pipeline, and the DocumentSource of each stage). What its IDL parsers refuse is
        // Location40414 for a
        // field that is missing, Location40415 for one that does not exist, TypeMismatch and BadValue.
        "pipelines" {
            Location40323 = 40323, FailedToParse, "a stage is not a document with exactly one field";
            Location40324 = 40324, FailedToParse, "a stage does not exist";
            Location40600 = 40600, FailedToParse, "a stage is not allowed in the pipeline of another stage";
            Location40601 = 40601, FailedToParse, "a stage must be the last of its pipeline";
            Location40602 = 40602, FailedToParse, "a stage must be the first of its pipeline";
            Location7749501 = 7_749_501, FailedToParse, "there are too many stages";
        }
        "$addFields and $set" {
            Location40176 = 40176, FailedToParse, "two paths overlap";
            Location40181 = 40181, FailedToParse, "a document with an operator has other fields";
            Location40183 = 40183, FailedToParse, "a path within a document has a dot";
            Location40272 = 40272, FailedToParse, "the operand is not a document";
        }
        "$bucket" {
            Location40192 = 40192, FailedToParse, "there are fewer than two boundaries";
            Location40193 = 40193, FailedToParse, "the boundaries have different types";
            Location40194 = 40194, FailedToParse, "the boundaries are not in ascending order";
            Location40196 = 40196, FailedToParse, "`output` is not a document";
            Location40197 = 40197, FailedToParse, "an option does not exist";
            Location40198 = 40198, FailedToParse, "`groupBy` or `boundaries` is missing";
            Location40199 = 40199, BadValue, "the default is inside one of the buckets";
            Location40200 = 40200, FailedToParse, "`boundaries` is not an array";
            Location40201 = 40201, FailedToParse, "the operand is not a document";
            Location40202 = 40202, FailedToParse, "`groupBy` is neither a path nor an expression";
        }
        "$bucketAuto" {
            Location40239 = 40239, FailedToParse, "`groupBy` is neither a path nor an expression";
            Location40240 = 40240, FailedToParse, "the operand is not a document";
            Location40241 = 40241, FailedToParse, "`buckets` is not a number";
            Location40242 = 40242, FailedToParse, "`buckets` is not a 32-bit integer";
            Location40243 = 40243, FailedToParse, "`buckets` is not positive";
            Location40244 = 40244, FailedToParse, "`output` is not a document";
            Location40245 = 40245, FailedToParse, "an option does not exist";
            Location40246 = 40246, FailedToParse, "`groupBy` or `buckets` is missing";
        }
        "$changeStream" {
            Location40573 = 40573, FailedToParse, "changes are not recorded";
            Location40674 = 40674, FailedToParse, "there is more than one position to start from";
            Location50808 = 50808, FailedToParse, "the operand is not a document";
        }
        "$changeStreamSplitLargeEvent" {
            Location7182800 = 7_182_800, FailedToParse, "the operand is not an empty document";
            Location7182802 = 7_182_802, FailedToParse, "it is not the last stage";
        }
        "$count" {
            Location40156 = 40156, FailedToParse, "the operand is not a string";
            Location40157 = 40157, FailedToParse, "the field name is empty";
            Location40158 = 40158, FailedToParse, "the field name begins with `$`";
            Location40159 = 40159, FailedToParse, "the field name has a zero byte";
            Location40160 = 40160, FailedToParse, "the field name has a dot";
            Location9039800 = 9_039_800, FailedToParse, "the field name is `_id`";
        }
        "$densify" {
            Location5733201 = 5_733_201, TypeMismatch, "the field of a document is neither a number nor a date";
            Location5733401 = 5_733_401, FailedToParse, "the step is not a positive number";
            Location5733402 = 5_733_402, FailedToParse, "the bounds are not in ascending order";
            Location5733403 = 5_733_403, FailedToParse, "there are not exactly two bounds";
            Location5733404 = 5_733_404, FailedToParse, "the bounds are neither a string nor an array";
            Location5733405 = 5_733_405, FailedToParse, "the second bound is not a date as the first is";
            Location5733406 = 5_733_406, FailedToParse, "the second bound is not a number as the first is";
            Location5733408 = 5_733_408, FailedToParse, "the bounds are those of partitions, and there are none";
            Location5733409 = 5_733_409, FailedToParse, "the bounds are numbers, and there is a unit";
            Location5733410 = 5_733_410, FailedToParse, "the bounds are dates, and there is no unit";
            Location5897900 = 5_897_900, BadValue, "it would add too many documents";
            Location5946800 = 5_946_800, FailedToParse, "a bound is neither a number nor a date";
            Location5946802 = 5_946_802, FailedToParse, "the bounds are another string than `full` and `partition`";
            Location6586400 = 6_586_400, FailedToParse, "the step of a unit is not a whole number";
        }
        "$documents" {
            Location5858203 = 5_858_203, FailedToParse, "the operand is not an array of documents";
        }
        "$facet" {
            Location40169 = 40169, FailedToParse, "the operand is not a document, or an empty one";
            Location40170 = 40170, FailedToParse, "a pipeline is not an array";
            Location40171 = 40171, FailedToParse, "a stage is not a document";
        }
        "$fill" {
            Location6050200 = 6_050_200, FailedToParse, "the value of a field is not a document";
            Location6050201 = 6_050_201, FailedToParse, "there is a method beside a value";
            Location6050202 = 6_050_202, FailedToParse, "the method does not exist";
            Location6050203 = 6_050_203, FailedToParse, "there is no output";
            Location6050204 = 6_050_204, FailedToParse, "there is `partitionByFields` beside `partitionBy`";
        }
        "$geoNear" {
            Location16605 = 16605, FailedToParse, "there is no point";
            Location16606 = 16606, FailedToParse, "`distanceField` is not a string";
            Location16607 = 16607, FailedToParse, "`includeLocs` is not a string";
        }
        "$graphLookup" {
            Location40100 = 40100, FailedToParse, "`maxDepth` is not a number";
            Location40101 = 40101, FailedToParse, "`maxDepth` is negative";
            Location40102 = 40102, FailedToParse, "`maxDepth` is not a whole number";
            Location40103 = 40103, FailedToParse, "an option is not a string";
            Location40104 = 40104, FailedToParse, "an option does not exist";
            Location40105 = 40105, FailedToParse, "an option is missing";
            Location40185 = 40185, FailedToParse, "`restrictSearchWithMatch` is not a document";
        }
        "$group" {
            Location15947 = 15947, FailedToParse, "the operand is not a document";
            Location15948 = 15948, FailedToParse, "there is more than one `_id`";
            Location15955 = 15955, FailedToParse, "there is no `_id`";
        }
        "$indexStats" {
            Location28803 = 28803, FailedToParse, "the operand is not an empty document";
        }
        "$limit" {
            Location5107201 = 5_107_201, FailedToParse, "the operand is not a whole number from 0";
            Location15958 = 15958, FailedToParse, "the operand is 0";
        }
        "$match" {
            Location15959 = 15959, FailedToParse, "the operand is not a document";
        }
        "$merge" {
            Location51132 = 51132, BadValue, "a document has no value for one of the `on` fields";
            Location51134 = 51134, FailedToParse, "one of `on` is not a string";
            Location51178 = 51178, FailedToParse, "`into` is neither a string nor a document";
            Location51183 = 51183, BadValue, "the `on` fields match more than one document";
            Location51186 = 51186, FailedToParse, "`on` is neither a string nor an array";
            Location51187 = 51187, FailedToParse, "`on` is empty";
            Location51191 = 51191, FailedToParse, "`whenMatched` is neither a string nor an array";
            Location51199 = 51199, FailedToParse, "there are variables, and no pipeline to use them";
            Location31320 = 31320, BadValue, "the database is one of the server's own";
            Location5786800 = 5_786_800, FailedToParse, "`into` is empty";
            Location5786801 = 5_786_801, FailedToParse, "`into` has no `coll`";
        }
        "$out" {
            Location16990 = 16990, FailedToParse, "the operand is neither a string nor a document";
            Location17152 = 17152, BadValue, "the collection is capped";
            Location31321 = 31321, BadValue, "the database is one of the server's own";
            Location7268700 = 7_268_700, BadValue, "`timeseries` is given, and the collection is no time series";
            Location7406103 = 7_406_103, BadValue, "`timeseries` is not what the time series has";
        }
        "$project" {
            Location15969 = 15969, FailedToParse, "the operand is not a document";
            Location31249 = 31249, FailedToParse, "two paths overlap";
            Location31252 = 31252, FailedToParse, "a field of an exclusion is computed";
            Location31253 = 31253, FailedToParse, "a field is included in an exclusion";
            Location31254 = 31254, FailedToParse, "a field is excluded in an inclusion";
            Location31310 = 31310, FailedToParse, "a field of an exclusion is a literal";
            Location51270 = 51270, FailedToParse, "a field is an empty document";
            Location51272 = 51272, FailedToParse, "there are no fields";
        }
        "$redact" {
            Location17053 = 17053, BadValue, "the result is none of `$$KEEP`, `$$PRUNE` and `$$DESCEND`";
        }
        "$replaceRoot" {
            Location40228 = 40228, BadValue, "the new root is not a document";
            Location40229 = 40229, FailedToParse, "the operand is not a document";
        }
        "$sample" {
            Location28745 = 28745, FailedToParse, "the operand is not a document";
            Location28746 = 28746, FailedToParse, "the size is not a number";
            Location28747 = 28747, FailedToParse, "the size is not positive";
            Location28748 = 28748, FailedToParse, "an option does not exist";
            Location28749 = 28749, FailedToParse, "there is no size";
        }
        "$setWindowFields" {
            Location5339900 = 5_339_900, FailedToParse, "the lower edge of a window is above the upper one";
            Location5339901 = 5_339_901, FailedToParse, "a window of documents has no `sortBy`";
            Location5339902 = 5_339_902, FailedToParse, "a window of a range has no `sortBy` of one field";
            Location5371601 = 5_371_601, FailedToParse, "a rank has a window";
            Location5371602 = 5_371_602, FailedToParse, "a rank has no `sortBy` of one field";
            Location5371603 = 5_371_603, FailedToParse, "the operand of a rank is not an empty document";
            Location5429414 = 5_429_414, TypeMismatch, "the value that a window of a range needs is not a number";
            Location5490710 = 5_490_710, FailedToParse, "the unit is longer than a week";
        }
        "$skip" {
            Location5107200 = 5_107_200, FailedToParse, "the operand is not a whole number from 0";
        }
        "$sort" {
            Location17312 = 17312, FailedToParse, "a key is sorted by another expression than `$meta`";
            Location15973 = 15973, FailedToParse, "the operand is not a document";
            Location15974 = 15974, FailedToParse, "the direction of a key is not a number";
            Location15975 = 15975, BadValue, "the direction of a key is neither 1 nor -1";
            Location15976 = 15976, FailedToParse, "there are no keys";
        }
        "$sortByCount" {
            Location40147 = 40147, FailedToParse, "the operand is a document without an operator";
            Location40148 = 40148, FailedToParse, "the operand is a string that is not a path";
            Location40149 = 40149, FailedToParse, "the operand is neither a string nor a document";
        }
        "$unset" {
            Location31002 = 31002, FailedToParse, "the operand is neither a string nor an array";
            Location31119 = 31119, FailedToParse, "the operand is empty";
            Location31120 = 31120, FailedToParse, "an element is not a string";
        }
        "$unwind" {
            Location15981 = 15981, FailedToParse, "the operand is neither a string nor a document";
            Location28808 = 28808, FailedToParse, "the path is not a string";
            Location28809 = 28809, FailedToParse, "`preserveNullAndEmptyArrays` is not a boolean";
            Location28810 = 28810, FailedToParse, "`includeArrayIndex` is not a string, or an empty one";
            Location28811 = 28811, FailedToParse, "an option does not exist";
            Location28812 = 28812, FailedToParse, "there is no path";
            Location28818 = 28818, FailedToParse, "the path does not begin with `$`";
            Location28822 = 28822, FailedToParse, "`includeArrayIndex` begins with `$`";
        }
        "$vectorSearch" {
            Location7912700 = 7_912_700, FailedToParse, "the limit is not positive";
            Location8575100 = 8_575_100, FailedToParse, "the limit is not a number";
        }
    }
}

impl ErrorCode {
    /// The number that drivers see.
    pub const fn number(self) -> i32 {
        self as i32
    }
}
